// Errors, texts, versions, options: what all functions of the C API share.
#include <cstdlib>
#include <exception>
#include <new>

#include "capi/handles.h"
#include "tenon/option_names.h"

namespace tenon::capi {

// For where there is no memory to say so.
static tenon_error out_of_memory{TENON_OUT_OF_MEMORY, "out of memory", ""};

static void give(tenon_error** error, int32_t code, const char* message, const char* where) noexcept {
  if (!error) return;
  try {
    *error = new tenon_error{code, message, where};
  } catch (...) {
    *error = &out_of_memory;
  }
}

static int32_t code_of(ErrorKind kind) {
  switch (kind) {
  case ErrorKind::BadInput: return TENON_BAD_INPUT;
  case ErrorKind::Unsupported: return TENON_UNSUPPORTED;
  case ErrorKind::Internal: break;
  }
  return TENON_INTERNAL;
}

int32_t failed(tenon_error** error) noexcept {
  try {
    throw;
  } catch (const Error& e) {
    int32_t code = code_of(e.kind);
    give(error, code, e.what(), e.where.c_str());
    return code;
  } catch (const std::bad_alloc&) {
    if (error) *error = &out_of_memory;
    return TENON_OUT_OF_MEMORY;
  } catch (const std::exception& e) {
    give(error, TENON_INTERNAL, e.what(), "");
  } catch (...) {
    give(error, TENON_INTERNAL, "an exception of unknown type", "");
  }
  return TENON_INTERNAL;
}

void refuse(const std::string& message) { throw Error(ErrorKind::BadInput, message); }

char* text_of(const std::string& text) {
  auto* out = static_cast<char*>(std::malloc(text.size() + 1));
  if (!out) throw std::bad_alloc();
  std::memcpy(out, text.c_str(), text.size() + 1);
  return out;
}

Options options_of(const tenon_options* options) {
  Options out;
  if (!options) return out;
  tenon_options given = read_struct(*options);
  if (given.reserved != 0) refuse("tenon_options::reserved is not 0");
  if (given.num_options > 0) need(given.options, "tenon_options::options");
  for (size_t i = 0; i < given.num_options; i++) {
    const tenon_option& o = given.options[i];
    set_option(out, need(o.name, "an option's name"), need(o.value, "an option's value")).check();
  }
  if (given.pool) out.pool = given.pool->pool;
  return out;
}

} // namespace tenon::capi

using namespace tenon::capi;

uint32_t tenon_api_version() { return TENON_API_MAJOR * 65536u + TENON_API_MINOR; }
const char* tenon_version() { return "0.1.0"; }

int32_t tenon_error_code(const tenon_error* error) { return error ? error->code : int32_t{TENON_OK}; }
const char* tenon_error_message(const tenon_error* error) { return error ? error->message.c_str() : ""; }
const char* tenon_error_where(const tenon_error* error) { return error ? error->where.c_str() : ""; }
void tenon_error_free(tenon_error* error) {
  if (error != &out_of_memory) delete error;
}
void tenon_text_free(char* text) { std::free(text); }

int32_t tenon_thread_pool_new(int32_t threads, tenon_thread_pool** out, tenon_error** error) {
  return guarded(error, [&] {
    need(out, "out");
    if (threads < 0 || threads > 256) refuse("a pool has 0 to 256 threads, not " + std::to_string(threads));
    *out = new tenon_thread_pool{tenon::ThreadPool(threads)};
  });
}
void tenon_thread_pool_free(tenon_thread_pool* pool) { delete pool; }

struct tenon_thread_budget {
  tenon::ThreadBudget budget;
};
int32_t tenon_thread_budget_new(int32_t threads, tenon_thread_budget** out, tenon_error** error) {
  return guarded(error, [&] {
    need(out, "out");
    if (threads < 0) refuse("a budget of " + std::to_string(threads) + " threads");
    *out = new tenon_thread_budget{tenon::ThreadBudget(threads)};
  });
}
void tenon_thread_budget_free(tenon_thread_budget* budget) { delete budget; }
