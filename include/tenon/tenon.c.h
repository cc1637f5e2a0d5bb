// The C API: all that C, Rust, Go, Java and others need to load, compile and run programs. C99. What the functions do is said in full at
// the C++ ones they stand for (program.h, options.h, threads.h); how to begin, and notes for languages: docs/c.md.
//
// Rules that hold for all of it:
// - Functions give a status, 0 where they succeed. Then, and only then, what they make is at `out`; else `error`, where that is not NULL,
//   gets what went wrong, to be freed. No exception leaves a function.
// - Handles belong to the caller and are freed by the function of their type; freeing NULL is nothing. A handle keeps alive what it needs:
//   a program may be freed before its executables.
// - Texts are UTF-8 and end in 0. `const char*` that is returned lives as long as the handle it came from; `char*` at an `out` is freed by
//   tenon_text_free. Arguments are read during the call alone, unless it says otherwise.
// - Handles may be passed between threads. A function that takes one as const may be called by many threads at once; the others, and
//   freeing, want it for themselves.
// - Structs that may grow begin with `struct_size`, which the caller sets to sizeof of what it was compiled with. What a smaller struct
//   lacks is as if zero; beyond what the library knows a larger one that is read must be zero, one that is written is made zero.
//
// ABI: tenon_api_version() is major * 65536 + minor, and the number in the library's file name (libtenon.so.MAJOR) the same major. Within
// a major version functions, enumerators and fields at the end of growing structs are added, which counts the minor up; nothing is taken
// away or changes what it means, and other structs stay as they are. The C++ API has no stable ABI.
#pragma once
#include "tenon/custom_op.c.h" // IWYU pragma: export
#include "tenon/dlpack.h"      // IWYU pragma: export

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_API_MAJOR 0
#define TENON_API_MINOR 1
/// Of the library that runs, which may be newer than this header.
TENON_C_API uint32_t tenon_api_version(void);
/// "0.1.0".
TENON_C_API const char* tenon_version(void);

/// What functions return.
enum tenon_status {
  TENON_OK = 0,
  TENON_BAD_INPUT = 1,    ///< bytes, texts or tensors that are given are wrong
  TENON_UNSUPPORTED = 2,  ///< the program is valid, but uses something that tenon cannot run
  TENON_INTERNAL = 3,     ///< a defect of tenon
  TENON_OUT_OF_MEMORY = 4 ///< BAD_INPUT too, where sizes that were given are too large
};

typedef struct tenon_error tenon_error;
TENON_C_API int32_t tenon_error_code(const tenon_error* error);
/// A full sentence.
TENON_C_API const char* tenon_error_message(const tenon_error* error);
/// The file, node or source line concerned; may be empty.
TENON_C_API const char* tenon_error_where(const tenon_error* error);
TENON_C_API void tenon_error_free(tenon_error* error);
TENON_C_API void tenon_text_free(char* text);

/// Tensors with names, in an order.
typedef struct tenon_tensors tenon_tensors;
TENON_C_API size_t tenon_tensors_count(const tenon_tensors* tensors);
/// NULL where there is no such tensor.
TENON_C_API const char* tenon_tensors_name(const tenon_tensors* tensors, size_t i);
/// Its memory, shared, which lives until `*out` and all others that share it are let go: (*out)->deleter(*out).
TENON_C_API int32_t tenon_tensors_get(const tenon_tensors* tensors, size_t i, DLManagedTensorVersioned** out, tenon_error** error);
TENON_C_API void tenon_tensors_free(tenon_tensors* tensors);

/// DLPack's type of a tenon_dtype, and back. Errors: BAD_INPUT for one that the other has not.
TENON_C_API int32_t tenon_dtype_to_dlpack(int32_t dtype, DLDataType* out, tenon_error** error);
TENON_C_API int32_t tenon_dtype_from_dlpack(const DLDataType* dtype, int32_t* out, tenon_error** error);
/// "f32", "bf16"; NULL for a number that is none.
TENON_C_API const char* tenon_dtype_name(int32_t dtype);

/// An option of compiling or running: {"threads", "2"}, {"forbid-fallback", "true"}; those of the tool. docs/c.md lists them.
typedef struct tenon_option {
  const char* name;
  const char* value;
} tenon_option;

/// Threads that executables share (threads.h: ThreadPool). It lives as long as its handle or an executable has it.
typedef struct tenon_thread_pool tenon_thread_pool;
/// A pool of so many threads, those that call included, 256 at most; 0: as many as there are cores.
TENON_C_API int32_t tenon_thread_pool_new(int32_t threads, tenon_thread_pool** out, tenon_error** error);
TENON_C_API void tenon_thread_pool_free(tenon_thread_pool* pool);

/// From now until it is freed, what the calling thread calls uses at most so many threads; of nested ones the least counts, and 0 sets no
/// bound. To be freed by the thread that made it, the last one first.
typedef struct tenon_thread_budget tenon_thread_budget;
TENON_C_API int32_t tenon_thread_budget_new(int32_t threads, tenon_thread_budget** out, tenon_error** error);
TENON_C_API void tenon_thread_budget_free(tenon_thread_budget* budget);

/// How to compile. Where functions take one, NULL is the defaults.
typedef struct tenon_options {
  uint32_t struct_size;
  uint32_t reserved; ///< 0
  const tenon_option* options;
  size_t num_options;
  const tenon_thread_pool* pool; ///< NULL: the process's own
} tenon_options;

/// One flattened input or output. The members live as long as the handle that gave them.
typedef struct tenon_arg_info {
  uint32_t struct_size;
  int32_t dtype;            ///< a tenon_dtype
  int32_t rank;             ///< 0 for numbers, which are passed as tensors without dims: i64, f64 or bool
  int32_t is_number;        ///< 1 or 0
  const char* name;         ///< may be empty
  const char* const* sizes; ///< `rank` of them: "4", or an expression over the program's symbols, "s77*2"
} tenon_arg_info;

/// A program as loaded: graph, weights, calling convention. Nothing changes it.
typedef struct tenon_program tenon_program;
/// Maps a .pt2 that torch.export.save wrote; the file must not change while the program or its executables live. `method` names one of
/// several programs in it; NULL: the only one. Errors: BAD_INPUT for a file that is missing or wrong.
TENON_C_API int32_t tenon_program_load(const char* path, const char* method, tenon_program** out, tenon_error** error);
/// The same from memory, which must stay as it is while the program or its executables live. `name` is what errors call it; NULL:
/// "program".
TENON_C_API int32_t tenon_program_load_bytes(const void* bytes, size_t size, const char* name, tenon_program** out, tenon_error** error);
/// The names of the programs in an archive, one a line.
TENON_C_API int32_t tenon_program_methods(const char* path, char** out, tenon_error** error);
TENON_C_API void tenon_program_free(tenon_program* program);

TENON_C_API size_t tenon_program_num_inputs(const tenon_program* program);
TENON_C_API size_t tenon_program_num_outputs(const tenon_program* program);
/// User inputs and outputs, flattened, None and strings left out. `out->struct_size` is set before. Errors: BAD_INPUT for an `i` that is
/// too large.
TENON_C_API int32_t tenon_program_input(const tenon_program* program, size_t i, tenon_arg_info* out, tenon_error** error);
TENON_C_API int32_t tenon_program_output(const tenon_program* program, size_t i, tenon_arg_info* out, tenon_error** error);
/// How forward's arguments nest, and its result: "(({'ids': i64[s0, 128]}, 0.5), {})", a line each.
TENON_C_API int32_t tenon_program_structure(const tenon_program* program, char** out, tenon_error** error);
/// Example inputs stored in the archive, in the order of its inputs. Errors: BAD_INPUT where there are none.
TENON_C_API int32_t tenon_program_example_inputs(const tenon_program* program, tenon_tensors** out, tenon_error** error);
/// Parameters and persistent buffers by their qualified names: views of the mapped file, not to be written.
TENON_C_API int32_t tenon_program_weights(const tenon_program* program, tenon_tensors** out, tenon_error** error);
/// The program with other weights in the place of those named. On success it takes the tensors, and calls their deleters when it is done
/// with them, in any thread; on failure they stay the caller's. Errors: BAD_INPUT for a name that is none or there twice, for another
/// dtype or size.
TENON_C_API int32_t tenon_program_with_weights(const tenon_program* program, const char* const* names,
                                               DLManagedTensorVersioned* const* tensors, size_t count, tenon_program** out,
                                               tenon_error** error);
/// The program as text after a stage: aten, core, edge, backend, regions, kernels, loops, plan, llvm or asm.
TENON_C_API int32_t tenon_program_dump(const tenon_program* program, const char* stage, const tenon_options* options, char** out,
                                       tenon_error** error);

/// Native code for a program. Many threads may run one; calls of a program with state take turns.
typedef struct tenon_executable tenon_executable;
/// Compiles for this machine. Errors: UNSUPPORTED lists all missing operators at once; BAD_INPUT for an option that is wrong.
TENON_C_API int32_t tenon_program_compile(const tenon_program* program, const tenon_options* options, tenon_executable** out,
                                          tenon_error** error);
/// Compiles into a file that tenon_executable_load runs on machines of this kind.
TENON_C_API int32_t tenon_program_save_compiled(const tenon_program* program, const char* path, const tenon_options* options,
                                                tenon_error** error);
/// What tenon_program_save_compiled wrote. The file holds machine code: load it only from where you would load a library. Errors:
/// BAD_INPUT for a file that is missing, damaged or of another version; UNSUPPORTED for another kind of machine.
TENON_C_API int32_t tenon_executable_load(const char* path, const tenon_options* options, tenon_executable** out, tenon_error** error);
/// Another one on the same machine code, with a state of its own that starts as this one's is now.
TENON_C_API int32_t tenon_executable_copy(const tenon_executable* executable, tenon_executable** out, tenon_error** error);
TENON_C_API void tenon_executable_free(tenon_executable* executable);

TENON_C_API size_t tenon_executable_num_inputs(const tenon_executable* executable);
TENON_C_API size_t tenon_executable_num_outputs(const tenon_executable* executable);
TENON_C_API int32_t tenon_executable_input(const tenon_executable* executable, size_t i, tenon_arg_info* out, tenon_error** error);
TENON_C_API int32_t tenon_executable_output(const tenon_executable* executable, size_t i, tenon_arg_info* out, tenon_error** error);

/// Runs on inputs of any strides and alignment, in memory of the CPU. `outputs` are `num_outputs` pointers, as many as the program has,
/// which get tensors that the library makes; whoever has them calls their deleters. Inputs that the program changes in place hold their
/// new values. Errors: BAD_INPUT for a wrong count, dtype, rank or size, which names the input, the dimension and the range; UNSUPPORTED
/// names a device that is not the CPU. Then no output is given.
TENON_C_API int32_t tenon_executable_run(const tenon_executable* executable, const DLTensor* const* inputs, size_t num_inputs,
                                         DLManagedTensorVersioned** outputs, size_t num_outputs, tenon_error** error);
/// The same into memory of the caller, of the dtypes and sizes of the results and with any strides that keep elements apart. Errors: also
/// BAD_INPUT for an output that does not fit, which is then not written, or partly.
TENON_C_API int32_t tenon_executable_run_into(const tenon_executable* executable, const DLTensor* const* inputs, size_t num_inputs,
                                              const DLTensor* const* outputs, size_t num_outputs, tenon_error** error);
/// The same for languages that do not like structs of pointers: inputs, and behind them outputs, as parallel arrays. `dtypes` are
/// tenon_dtypes; `sizes` has the sizes of all of them one after the other, and so has `strides`, in elements; NULL: all row-major.
TENON_C_API int32_t tenon_executable_run_arrays(const tenon_executable* executable, size_t num_inputs, size_t num_outputs,
                                                void* const* data, const int32_t* dtypes, const int32_t* ranks, const int64_t* sizes,
                                                const int64_t* strides, tenon_error** error);

/// Inputs and outputs checked once, for repeated runs on the same memory, which must stay; the structs need not. It has temporaries of
/// its own. Errors: those of tenon_executable_run_into, UNSUPPORTED where the program is interpreted.
typedef struct tenon_bound_call tenon_bound_call;
TENON_C_API int32_t tenon_executable_bind(const tenon_executable* executable, const DLTensor* const* inputs, size_t num_inputs,
                                          const DLTensor* const* outputs, size_t num_outputs, tenon_bound_call** out, tenon_error** error);
/// Not for several threads at once; several bound calls may run at once.
TENON_C_API int32_t tenon_bound_call_run(tenon_bound_call* call, tenon_error** error);
TENON_C_API void tenon_bound_call_free(tenon_bound_call* call);

/// Buffers that the program changes: copies of what they hold now.
TENON_C_API int32_t tenon_executable_state(const tenon_executable* executable, tenon_tensors** out, tenon_error** error);
/// Gives buffers new values, which are copied; others stay. Errors: BAD_INPUT for an unknown name, another dtype or size: then nothing is
/// changed.
TENON_C_API int32_t tenon_executable_set_state(tenon_executable* executable, const char* const* names, const DLTensor* const* tensors,
                                               size_t count, tenon_error** error);
/// All buffers as the archive has them.
TENON_C_API int32_t tenon_executable_reset_state(tenon_executable* executable, tenon_error** error);

/// Compiles for exactly the inputs' sizes (Executable::specialize). Only the data of numbers is read; that of others may be NULL.
TENON_C_API int32_t tenon_executable_specialize(const tenon_executable* executable, const DLTensor* const* inputs, size_t num_inputs,
                                                tenon_error** error);
/// Waits until nothing is compiled in the background. Errors: those of compiling, where it was not waited for.
TENON_C_API int32_t tenon_executable_wait(const tenon_executable* executable, tenon_error** error);

/// How the program is executed (program.h: ExecutableStats).
typedef struct tenon_stats {
  uint32_t struct_size;
  int32_t kernels_compiled; ///< distinct machine-code kernels, those that came with the library among them
  int32_t steps;            ///< steps of the plan
  int32_t fallback_steps;   ///< steps that run in the interpreter
  int32_t delegate_steps;   ///< steps that backends run
  int32_t is_compiling;     ///< 1: calls run in the interpreter until there is code
  int32_t cache;            ///< the option `cache`: 0 not used, 1 found there, 2 stored there, 3 could not be written
  uint32_t reserved;
  double compile_ms;
  uint64_t state_bytes; ///< buffers that live between calls
  uint64_t arena_bytes; ///< planned memory of the last sizes
} tenon_stats;
TENON_C_API int32_t tenon_executable_stats(const tenon_executable* executable, tenon_stats* out, tenon_error** error);

/// Bytes that a run takes beside inputs, weights and state (program.h: MemoryUse).
typedef struct tenon_memory_use {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t temporaries; ///< as laid out in the one block of a call
  uint64_t alive;       ///< the most of them that is alive at once
  uint64_t scratch;     ///< of all workers
  uint64_t results;
} tenon_memory_use;
/// What a run on inputs of these sizes will take. Only the data of numbers is read; that of others may be NULL.
TENON_C_API int32_t tenon_executable_memory(const tenon_executable* executable, const DLTensor* const* inputs, size_t num_inputs,
                                            tenon_memory_use* out, tenon_error** error);
/// Regions, kernels chosen and refused, source lines, memory; with the option `profile` also times of the runs so far.
TENON_C_API int32_t tenon_executable_explain(const tenon_executable* executable, char** out, tenon_error** error);
/// The same in a format: "text", "json" (docs/explain.md has its members), or "html", a page for a browser. Errors: BAD_INPUT for another.
TENON_C_API int32_t tenon_executable_explain_as(const tenon_executable* executable, const char* format, char** out, tenon_error** error);

/// Makes an operator or kernel known to the process (custom_op.h: register_op, register_kernel). Thread-safe. Errors: BAD_INPUT.
TENON_C_API int32_t tenon_op_register(const tenon_op* op, tenon_error** error);
TENON_C_API int32_t tenon_kernel_register(const tenon_kernel* kernel, tenon_error** error);
/// Registers what a shared library exports as tenon_ops, tenon_kernels or tenon_operators; it stays loaded. Thread-safe.
TENON_C_API int32_t tenon_op_library_load(const char* path, tenon_error** error);
/// Registers the backends of a shared library (backend.h); their names, one a line, are values of the option `backend`. Thread-safe.
TENON_C_API int32_t tenon_backend_library_load(const char* path, char** out, tenon_error** error);

#ifdef __cplusplus
}
#endif
