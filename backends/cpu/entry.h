/* The CPU backend's table, linked in; the same kind of table that a plugin's eb_get_backend returns. */
#ifndef BACKENDS_CPU_ENTRY_H_
#define BACKENDS_CPU_ENTRY_H_

#include "backends/abi/backend_abi.h"

#ifdef __cplusplus
extern "C"
#endif
const eb_backend_table* eb_cpu_backend(void);

#endif /* BACKENDS_CPU_ENTRY_H_ */
