// The ABI's layout, written down: a field that moves or a struct that shrinks breaks every plugin that was built before. Fields are
// only appended; then a line is added here and the total size changes, and nothing else. (64-bit.)
#include <doctest/doctest.h>

#include <cstddef>

#include "backends/abi/backend_abi.h"

#define AT(type, field, offset) CHECK_MESSAGE(offsetof(type, field) == offset, #type "." #field)
#define SIZE(type, bytes) CHECK_MESSAGE(sizeof(type) == bytes, #type)

TEST_CASE("abi: version and constants") {
  CHECK(EB_ABI_MAJOR == 1);
  CHECK(EB_ABI_MINOR == 3);
  CHECK(EB_MAX_RANK == 8);
  CHECK(EB_ERROR_MESSAGE_BYTES == 512);
  CHECK((EB_OK == 0 && EB_INVALID_ARGUMENT == 1 && EB_UNSUPPORTED == 2 && EB_OUT_OF_MEMORY == 3 && EB_DEVICE_LOST == 4 && EB_TIMEOUT == 5 && EB_INTERNAL == 6 && EB_NOT_READY == 7));
  CHECK((EB_FLOAT32 == 1 && EB_UINT8 == 2 && EB_INT64 == 7 && EB_BOOL == 9 && EB_FLOAT16 == 10 && EB_FLOAT64 == 11 && EB_BFLOAT16 == 16));
  CHECK((EB_CAP_HOST_VISIBLE == 1 && EB_CAP_CHANNELS_LAST == 2 && EB_CAP_BFLOAT16 == 4 && EB_CAP_FLOAT16 == 8));
  CHECK((EB_ATTR_INT == 1 && EB_ATTR_FLOAT == 2 && EB_ATTR_STRING == 3 && EB_ATTR_INTS == 4 && EB_ATTR_FLOATS == 5 && EB_ATTR_STRINGS == 6 && EB_ATTR_TENSOR == 7));
  CHECK((EB_ALIAS_IN_PLACE == 1 && EB_ALIAS_VIEW == 2));
}

TEST_CASE("abi: small structs") {
  AT(eb_error, struct_size, 0);
  AT(eb_error, code, 4);
  AT(eb_error, message, 8);
  SIZE(eb_error, 520);
  AT(eb_string, data, 0);
  AT(eb_string, length, 8);
  SIZE(eb_string, 16);
  AT(eb_device_options, struct_size, 0);
  AT(eb_device_options, threads, 4);
  AT(eb_device_options, deterministic, 8);
  SIZE(eb_device_options, 12);
  AT(eb_alias, kind, 4);
  AT(eb_alias, output, 8);
  AT(eb_alias, input, 12);
  SIZE(eb_alias, 16);
}

TEST_CASE("abi: device info") {
  AT(eb_device_info, struct_size, 0);
  AT(eb_device_info, index, 4);
  AT(eb_device_info, name, 8);
  AT(eb_device_info, description, 24);
  AT(eb_device_info, total_memory, 40);
  AT(eb_device_info, free_memory, 48);
  AT(eb_device_info, capabilities, 56);
  AT(eb_device_info, alignment, 64);
  AT(eb_device_info, unavailable, 72);
  AT(eb_device_info, identity, 88);
  SIZE(eb_device_info, 104);
}

TEST_CASE("abi: tensors, attributes, nodes") {
  AT(eb_tensor, struct_size, 0);
  AT(eb_tensor, dtype, 4);
  AT(eb_tensor, rank, 8);
  AT(eb_tensor, dims, 16);
  AT(eb_tensor, strides, 80);
  SIZE(eb_tensor, 144);
  AT(eb_attribute, struct_size, 0);
  AT(eb_attribute, kind, 4);
  AT(eb_attribute, name, 8);
  AT(eb_attribute, i, 24);
  AT(eb_attribute, f, 32);
  AT(eb_attribute, s, 40);
  AT(eb_attribute, count, 56);
  AT(eb_attribute, ints, 64);
  AT(eb_attribute, floats, 72);
  AT(eb_attribute, strings, 80);
  AT(eb_attribute, tensor, 88);
  AT(eb_attribute, tensor_data, 96);
  SIZE(eb_attribute, 104);
  AT(eb_node, struct_size, 0);
  AT(eb_node, opset, 4);
  AT(eb_node, domain, 8);
  AT(eb_node, op_type, 24);
  AT(eb_node, name, 40);
  AT(eb_node, input_count, 56);
  AT(eb_node, output_count, 60);
  AT(eb_node, attribute_count, 64);
  AT(eb_node, inputs, 72);
  AT(eb_node, outputs, 80);
  AT(eb_node, attributes, 88);
  AT(eb_node, host_inputs, 96);
  SIZE(eb_node, 104);
}

TEST_CASE("abi: kernel descriptor") {
  AT(eb_kernel_desc, struct_size, 0);
  AT(eb_kernel_desc, opset_min, 4);
  AT(eb_kernel_desc, opset_max, 8);
  AT(eb_kernel_desc, alias_count, 12);
  AT(eb_kernel_desc, domain, 16);
  AT(eb_kernel_desc, op_type, 32);
  AT(eb_kernel_desc, name, 48);
  AT(eb_kernel_desc, types, 64);
  AT(eb_kernel_desc, host_inputs, 72);
  AT(eb_kernel_desc, aliases, 80);
  AT(eb_kernel_desc, user_data, 88);
  AT(eb_kernel_desc, can_run, 96);
  AT(eb_kernel_desc, create, 104);
  AT(eb_kernel_desc, workspace, 112);
  AT(eb_kernel_desc, run, 120);
  AT(eb_kernel_desc, destroy, 128);
  SIZE(eb_kernel_desc, 136);
}

TEST_CASE("abi: tables") {
  AT(eb_core_table, device_count, 8);
  AT(eb_core_table, device_info, 16);
  AT(eb_core_table, open_device, 24);
  AT(eb_core_table, close_device, 32);
  AT(eb_core_table, shutdown, 40);
  SIZE(eb_core_table, 48);
  AT(eb_memory_table, allocate, 8);
  AT(eb_memory_table, release, 16);
  AT(eb_memory_table, allocate_host, 24);
  AT(eb_memory_table, release_host, 32);
  AT(eb_memory_table, copy_to_device, 40);
  AT(eb_memory_table, copy_to_host, 48);
  AT(eb_memory_table, copy_on_device, 56);
  AT(eb_memory_table, fill_zero, 64);
  AT(eb_memory_table, copy_between, 72);
  SIZE(eb_memory_table, 80);
  AT(eb_stream_table, create, 8);
  AT(eb_stream_table, destroy, 16);
  AT(eb_stream_table, synchronize, 24);
  AT(eb_stream_table, create_event, 32);
  AT(eb_stream_table, destroy_event, 40);
  AT(eb_stream_table, record, 48);
  AT(eb_stream_table, wait, 56);
  AT(eb_stream_table, event_query, 64);
  AT(eb_stream_table, event_synchronize, 72);
  SIZE(eb_stream_table, 80);
  AT(eb_backend_table, struct_size, 0);
  AT(eb_backend_table, abi_major, 4);
  AT(eb_backend_table, abi_minor, 8);
  AT(eb_backend_table, kernel_count, 12);
  AT(eb_backend_table, name, 16);
  AT(eb_backend_table, version, 32);
  AT(eb_backend_table, core, 48);
  AT(eb_backend_table, memory, 56);
  AT(eb_backend_table, streams, 64);
  AT(eb_backend_table, kernels, 72);
  AT(eb_backend_table, query, 80);
  SIZE(eb_backend_table, 88);
}

TEST_CASE("abi: collectives") {
  CHECK((EB_REDUCE_SUM == 1 && EB_REDUCE_MAX == 2 && EB_REDUCE_MIN == 3));
  SIZE(eb_unique_id, 128);
  AT(eb_collectives_table, struct_size, 0);
  AT(eb_collectives_table, minor, 4);
  AT(eb_collectives_table, unique_id, 8);
  AT(eb_collectives_table, init_all, 16);
  AT(eb_collectives_table, init_rank, 24);
  AT(eb_collectives_table, destroy, 32);
  AT(eb_collectives_table, all_reduce, 40);
  AT(eb_collectives_table, reduce_scatter, 48);
  AT(eb_collectives_table, all_gather, 56);
  AT(eb_collectives_table, broadcast, 64);
  AT(eb_collectives_table, group_begin, 72);
  AT(eb_collectives_table, group_end, 80);
  AT(eb_collectives_table, abort, 88);
  AT(eb_collectives_table, async_error, 96);
  SIZE(eb_collectives_table, 104);
}

TEST_CASE("abi: profiler") {
  CHECK((EB_SPAN_KERNEL == 1 && EB_SPAN_COPY == 2 && EB_SPAN_FILL == 3 && EB_SPAN_WAIT == 4));
  AT(eb_span, kind, 0);
  AT(eb_span, object, 8);
  AT(eb_span, bytes, 16);
  AT(eb_span, start_ns, 24);
  AT(eb_span, end_ns, 32);
  SIZE(eb_span, 40);
  AT(eb_trace, struct_size, 0);
  AT(eb_trace, span_size, 4);
  AT(eb_trace, spans, 8);
  AT(eb_trace, capacity, 16);
  AT(eb_trace, count, 24);
  AT(eb_trace, lost, 32);
  SIZE(eb_trace, 40);
  AT(eb_profiler_table, struct_size, 0);
  AT(eb_profiler_table, minor, 4);
  AT(eb_profiler_table, start, 8);
  AT(eb_profiler_table, stop, 16);
  SIZE(eb_profiler_table, 24);
}
