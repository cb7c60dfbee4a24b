/* The backend ABI, C11: all that a plugin needs. A backend is one shared object with one exported symbol,
 *
 *     const eb_backend_table* eb_get_backend(void);
 *
 * that returns a constant table (the CPU backend, linked into the engine, is entered through the same table).
 *
 * Rules. Every struct that crosses the border starts with struct_size, set by whoever fills it; fields are only ever
 * appended, and a reader looks at a field only where struct_size covers it. Major versions must match; minor ones may
 * differ. Functions return an eb_code and fill the caller's eb_error; nothing is to be freed across the border. Strings
 * carry a length and are not terminated; they live as long as the object that gave them. Nothing throws or exits.
 * Pointers are non-null unless "may be null" is said.
 *
 * Threads. The table's functions may be called from any thread; calls on one eb_stream, one eb_kernel or one eb_event must
 * not overlap. Work on one stream runs in the order it was enqueued; functions that take a stream only enqueue.
 *
 * Memory and time. run and everything that takes a stream enqueues and returns; no hidden copy, no allocation, no waiting. A
 * backend that needs room takes it from the workspace that the kernel asked for, and makes its handles and tables in create.
 *
 * To add something: append a field, raise EB_ABI_MINOR, add a line to CHANGELOG.md and to tests/backends/abi_offsets_test.cpp.
 */
#ifndef BACKENDS_ABI_BACKEND_ABI_H_
#define BACKENDS_ABI_BACKEND_ABI_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EB_ABI_MAJOR 1
#define EB_ABI_MINOR 3
#define EB_MAX_RANK 8
#define EB_ERROR_MESSAGE_BYTES 512

typedef enum eb_code {
  EB_OK = 0,
  EB_INVALID_ARGUMENT = 1,
  EB_UNSUPPORTED = 2,    /* a refusal, with the reason in the message */
  EB_OUT_OF_MEMORY = 3,
  EB_DEVICE_LOST = 4,    /* the device is of no use any more */
  EB_TIMEOUT = 5,
  EB_INTERNAL = 6,
  EB_NOT_READY = 7       /* only from event_query */
} eb_code;

/* Owned by the caller. message is terminated; an EB_OK call leaves it alone. */
typedef struct eb_error {
  uint32_t struct_size;
  int32_t code;
  char message[EB_ERROR_MESSAGE_BYTES];
} eb_error;

typedef struct eb_string {
  const char* data; /* may be null where length is 0 */
  uint64_t length;
} eb_string;

typedef struct eb_device eb_device;
typedef struct eb_stream eb_stream;
typedef struct eb_event eb_event;
typedef struct eb_kernel eb_kernel;

/* Element types: the numbers of ONNX's TensorProto.DataType. */
typedef enum eb_dtype {
  EB_UNDEFINED = 0, EB_FLOAT32 = 1, EB_UINT8 = 2, EB_INT8 = 3, EB_UINT16 = 4, EB_INT16 = 5, EB_INT32 = 6, EB_INT64 = 7,
  EB_BOOL = 9, EB_FLOAT16 = 10, EB_FLOAT64 = 11, EB_UINT32 = 12, EB_UINT64 = 13, EB_BFLOAT16 = 16
} eb_dtype;

/* ---- devices ------------------------------------------------------------------------------------------------------- */

typedef enum eb_capability {
  EB_CAP_HOST_VISIBLE = 1u << 0,   /* device pointers may be read and written by the host when no stream uses them */
  EB_CAP_CHANNELS_LAST = 1u << 1,  /* convolutions, pools and normalisations are fastest on channels-last operands */
  EB_CAP_BFLOAT16 = 1u << 2,
  EB_CAP_FLOAT16 = 1u << 3
} eb_capability;

typedef struct eb_device_info {
  uint32_t struct_size;
  int32_t index;
  eb_string name;         /* "cpu:0" */
  eb_string description;  /* "AMD EPYC, 2 threads" */
  uint64_t total_memory;  /* bytes */
  uint64_t free_memory;
  uint64_t capabilities;  /* eb_capability bits */
  uint64_t alignment;     /* bytes; what allocate gives and run may expect of every pointer */
  eb_string unavailable;  /* why the device cannot be opened; empty where it can */
  eb_string identity;     /* since 1.3: of the piece of hardware, the same for all processes of a host that see it; empty: not known */
} eb_device_info;

typedef struct eb_device_options {
  uint32_t struct_size;
  int32_t threads;        /* compute threads of a CPU device; 0: as many as the machine has */
  int32_t deterministic;  /* non-zero: only kernels whose result does not change from run to run */
} eb_device_options;

/* ---- nodes and kernels --------------------------------------------------------------------------------------------- */

/* Logical shape and where element (i0, i1, ...) lies: sum of i_k * strides[k], in elements. Row-major or channels-last
 * (axis 1 innermost), possibly with gaps where a tensor is a part of a larger one. */
typedef struct eb_tensor {
  uint32_t struct_size;
  int32_t dtype; /* EB_UNDEFINED: an omitted optional input or output */
  int32_t rank;
  int32_t reserved;
  int64_t dims[EB_MAX_RANK];
  int64_t strides[EB_MAX_RANK];
} eb_tensor;

typedef enum eb_attribute_kind {
  EB_ATTR_INT = 1, EB_ATTR_FLOAT = 2, EB_ATTR_STRING = 3, EB_ATTR_INTS = 4, EB_ATTR_FLOATS = 5, EB_ATTR_STRINGS = 6,
  EB_ATTR_TENSOR = 7
} eb_attribute_kind;

typedef struct eb_attribute {
  uint32_t struct_size;
  int32_t kind;
  eb_string name;
  int64_t i;
  double f;
  eb_string s;
  uint64_t count;             /* of ints, floats or strings */
  const int64_t* ints;        /* may be null where count is 0, as the next three */
  const float* floats;
  const eb_string* strings;
  const eb_tensor* tensor;
  const void* tensor_data;    /* row-major */
} eb_attribute;

typedef struct eb_node {
  uint32_t struct_size;
  int32_t opset;              /* version of the domain's operator set */
  eb_string domain, op_type, name;
  uint32_t input_count, output_count, attribute_count, reserved;
  const eb_tensor* inputs;
  const eb_tensor* outputs;
  const eb_attribute* attributes;
  const void* const* host_inputs; /* per input: row-major content known before the step, or null */
} eb_node;

typedef enum eb_alias_kind {
  EB_ALIAS_IN_PLACE = 1, /* output may take the input's memory if shape, type and strides agree and nobody reads the input later */
  EB_ALIAS_VIEW = 2      /* output has the input's bytes unchanged (Reshape): given the same pointer, run does nothing for it */
} eb_alias_kind;

typedef struct eb_alias {
  uint32_t struct_size;
  int32_t kind;
  int32_t output, input;
} eb_alias;

/* One implementation of one operator. Descriptors are constant for the life of the process. Among the descriptors of one
 * operator order is preference; a plain reference stands last. */
typedef struct eb_kernel_desc {
  uint32_t struct_size;
  int32_t opset_min, opset_max;  /* inclusive; opset_max 0: no upper end */
  uint32_t alias_count;
  eb_string domain, op_type;
  eb_string name;                /* of the implementation: "onednn", "reference" */
  uint64_t types;                /* bit t set: accepts element type t as its computing type (input 0, else output 0) */
  uint64_t host_inputs;          /* bit i set: needs host_inputs[i] at create */
  const eb_alias* aliases;       /* may be null where alias_count is 0 */
  const void* user_data;         /* the backend's own; may be null */
  /* EB_OK, or EB_UNSUPPORTED with a reason. Looks at types, shapes, strides and attributes; enqueues and allocates nothing. */
  int32_t (*can_run)(const struct eb_kernel_desc* self, const eb_device* device, const eb_node* node, eb_error* error);
  /* Chooses the algorithm and prepares. The node is not kept: what is needed later is copied. */
  int32_t (*create)(const struct eb_kernel_desc* self, eb_device* device, const eb_node* node, eb_kernel** kernel, eb_error* error);
  /* Bytes of device memory that run needs, aligned as the device says; the same at every call. */
  int32_t (*workspace)(const eb_kernel* kernel, uint64_t* bytes, eb_error* error);
  /* Enqueues. Pointers of omitted tensors are null. workspace may be null where workspace() said 0. Neither allocates nor blocks. */
  int32_t (*run)(eb_kernel* kernel, eb_stream* stream, const void* const* inputs, void* const* outputs, void* workspace, eb_error* error);
  void (*destroy)(eb_kernel* kernel);
} eb_kernel_desc;

/* ---- the tables ---------------------------------------------------------------------------------------------------- */

typedef struct eb_core_table {
  uint32_t struct_size;
  uint32_t reserved;
  int32_t (*device_count)(int32_t* count, eb_error* error);
  int32_t (*device_info)(int32_t index, eb_device_info* info, eb_error* error); /* caller sets info->struct_size */
  int32_t (*open_device)(int32_t index, const eb_device_options* options, eb_device** device, eb_error* error);
  void (*close_device)(eb_device* device); /* after its streams, events, kernels and memory are gone */
  void (*shutdown)(void);
} eb_core_table;

typedef struct eb_memory_table {
  uint32_t struct_size;
  uint32_t reserved;
  int32_t (*allocate)(eb_device* device, uint64_t bytes, void** pointer, eb_error* error); /* a few big blocks; EB_OUT_OF_MEMORY */
  void (*release)(eb_device* device, void* pointer);
  /* Host memory that asynchronous copies are fast from. */
  int32_t (*allocate_host)(eb_device* device, uint64_t bytes, void** pointer, eb_error* error);
  void (*release_host)(eb_device* device, void* pointer);
  /* All four enqueue. Host memory must stay until the stream has passed; from memory that allocate_host did not give, a copy may be
   * staged before the call returns. */
  int32_t (*copy_to_device)(eb_stream* stream, void* device_to, const void* host_from, uint64_t bytes, eb_error* error);
  int32_t (*copy_to_host)(eb_stream* stream, void* host_to, const void* device_from, uint64_t bytes, eb_error* error);
  int32_t (*copy_on_device)(eb_stream* stream, void* to, const void* from, uint64_t bytes, eb_error* error);
  int32_t (*fill_zero)(eb_stream* stream, void* to, uint64_t bytes, eb_error* error);
  /* Since 1.1; may be null. Enqueues a copy between two devices of this backend on a stream of either; the other device's work is
   * ordered by events. Without it, or between backends, content goes through host memory. */
  int32_t (*copy_between)(eb_stream* stream, eb_device* to_device, void* to, eb_device* from_device, const void* from, uint64_t bytes,
                          eb_error* error);
} eb_memory_table;

typedef struct eb_stream_table {
  uint32_t struct_size;
  uint32_t reserved;
  int32_t (*create)(eb_device* device, eb_stream** stream, eb_error* error);
  void (*destroy)(eb_stream* stream); /* waits for what is enqueued */
  /* Blocks the calling thread until everything enqueued is done; gives the first error of that work.
   * timeout_ms < 0: no limit; EB_TIMEOUT otherwise. */
  int32_t (*synchronize)(eb_stream* stream, int64_t timeout_ms, eb_error* error);
  int32_t (*create_event)(eb_device* device, eb_event** event, eb_error* error);
  void (*destroy_event)(eb_event* event);
  int32_t (*record)(eb_stream* stream, eb_event* event, eb_error* error);
  int32_t (*wait)(eb_stream* stream, eb_event* event, eb_error* error); /* the stream waits, not the caller */
  int32_t (*event_query)(eb_event* event, eb_error* error);              /* EB_OK when passed, EB_NOT_READY before */
  int32_t (*event_synchronize)(eb_event* event, int64_t timeout_ms, eb_error* error);
} eb_stream_table;

/* ---- collectives: query("collectives", 1), since 1.1 ---------------------------------------------------------------- */

/* A device's membership in a group of ranks. Calls on one communicator must not overlap, and all ranks make the same calls in the
 * same order; counts, types and roots agree. */
typedef struct eb_communicator eb_communicator;

#define EB_UNIQUE_ID_BYTES 128
typedef struct eb_unique_id { /* plain bytes, to be carried to the other processes */
  uint8_t bytes[EB_UNIQUE_ID_BYTES];
} eb_unique_id;

typedef enum eb_reduction { EB_REDUCE_SUM = 1, EB_REDUCE_MAX = 2, EB_REDUCE_MIN = 3 } eb_reduction;

/* Counts are in elements. The five operations enqueue on the stream, which belongs to the communicator's device. One thread that
 * drives several ranks puts their calls between group_begin and group_end; so it does with init_rank. */
typedef struct eb_collectives_table {
  uint32_t struct_size;
  int32_t minor;
  int32_t (*unique_id)(eb_unique_id* id, eb_error* error); /* by one rank, for all */
  /* One process: devices[i] becomes rank i of count. */
  int32_t (*init_all)(eb_device* const* devices, int32_t count, eb_communicator** communicators, eb_error* error);
  /* Blocks until all ranks have come. */
  int32_t (*init_rank)(eb_device* device, const eb_unique_id* id, int32_t count, int32_t rank, eb_communicator** communicator, eb_error* error);
  void (*destroy)(eb_communicator* communicator); /* after its work is done, or after abort */
  int32_t (*all_reduce)(eb_communicator* communicator, eb_stream* stream, const void* from, void* to, uint64_t count, int32_t dtype,
                        int32_t reduction, eb_error* error); /* from may be to */
  /* from: ranks * count elements; to: this rank's count. */
  int32_t (*reduce_scatter)(eb_communicator* communicator, eb_stream* stream, const void* from, void* to, uint64_t count, int32_t dtype,
                            int32_t reduction, eb_error* error);
  /* from: this rank's count elements; to: ranks * count. */
  int32_t (*all_gather)(eb_communicator* communicator, eb_stream* stream, const void* from, void* to, uint64_t count, int32_t dtype, eb_error* error);
  int32_t (*broadcast)(eb_communicator* communicator, eb_stream* stream, const void* from, void* to, uint64_t count, int32_t dtype, int32_t root,
                       eb_error* error); /* from is read on the root alone */
  int32_t (*group_begin)(eb_error* error);
  int32_t (*group_end)(eb_error* error);
  int32_t (*abort)(eb_communicator* communicator, eb_error* error);       /* ends calls that hang; then only destroy */
  int32_t (*async_error)(eb_communicator* communicator, eb_error* error); /* EB_OK, or the first error of enqueued work */
} eb_collectives_table;

/* ---- profiler: query("profiler", 1), since 1.2 ---------------------------------------------------------------------- */

typedef enum eb_span_kind { EB_SPAN_KERNEL = 1, EB_SPAN_COPY = 2, EB_SPAN_FILL = 3, EB_SPAN_WAIT = 4 } eb_span_kind;

/* One piece of a stream's work. Times are nanoseconds of one clock for all streams of the process: CLOCK_MONOTONIC, or a device's clock
 * converted to it. */
typedef struct eb_span {
  int32_t kind;
  int32_t reserved;
  const void* object; /* the eb_kernel or eb_event; null for copies */
  uint64_t bytes;     /* of copies and fills */
  int64_t start_ns, end_ns;
} eb_span;

/* Owned by the caller, as the spans. Spans lie span_size bytes apart; a backend fills what span_size covers. */
typedef struct eb_trace {
  uint32_t struct_size;
  uint32_t span_size;
  eb_span* spans;
  uint64_t capacity; /* of spans */
  uint64_t count;    /* set to 0 by start; spans written */
  uint64_t lost;     /* set to 0 by start; spans for which there was no room */
} eb_trace;

/* Both enqueue. The work between them is written to the trace in order; nothing is allocated meanwhile. The trace is the backend's until
 * synchronize of the stream has returned after stop: a device's times may be there to read only then. One trace a stream at a time: a
 * second start takes the place of the first. */
typedef struct eb_profiler_table {
  uint32_t struct_size;
  int32_t minor;
  int32_t (*start)(eb_stream* stream, eb_trace* trace, eb_error* error);
  int32_t (*stop)(eb_stream* stream, eb_error* error);
} eb_profiler_table;

/* ---- the backend ---------------------------------------------------------------------------------------------------- */

typedef struct eb_backend_table {
  uint32_t struct_size;
  int32_t abi_major, abi_minor;
  uint32_t kernel_count;
  eb_string name;    /* "cpu" */
  eb_string version;
  const eb_core_table* core;
  const eb_memory_table* memory;
  const eb_stream_table* streams;
  const eb_kernel_desc* const* kernels; /* kernel_count pointers */
  /* Optional tables ("collectives": eb_collectives_table, "profiler": eb_profiler_table): null where the backend has none of at least that minor version. */
  const void* (*query)(eb_string name, int32_t minor);
} eb_backend_table;

typedef const eb_backend_table* (*eb_get_backend_fn)(void);
#define EB_GET_BACKEND_SYMBOL "eb_get_backend"

#ifdef __cplusplus
}
#endif

#endif /* BACKENDS_ABI_BACKEND_ABI_H_ */
