// Calls of an executable: in code, in the interpreter, or in the interpreter until there is code.
#include "api/pending.h"
#include "base/strided.h"

namespace tenon {

Executable::Impl::Impl() = default;
Executable::Impl::~Impl() { pending.reset(); } // it works on the rest

void Executable::Impl::finish() {
  if (pending) pending->finish();
}

// What the interpreter made, in memory of the caller.
static void copy_results(const std::vector<Tensor>& results, std::span<const TensorView> outputs) {
  require_input(outputs.size() == results.size(), "{} outputs are given, the program has {}", outputs.size(), results.size());
  for (size_t i = 0; i < results.size(); i++) {
    Tensor result = results[i].contiguous();
    const TensorView &to = outputs[i], from = result.view();
    std::string why = output_refusal(static_cast<int>(i), to, from.dtype, from.sizes);
    require_input(why.empty(), "{}", why);
    copy_to_strided(from.data, to);
  }
}

// Empty where there is code to run instead.
std::optional<std::vector<Tensor>> Executable::Impl::interpret(std::span<const TensorView> in) {
  if (!is_ready) return pending->interpret(in);
  return interpreter ? std::optional(interpreter->run(in)) : std::nullopt;
}

Status Executable::Impl::run(std::span<const TensorView> in, std::vector<Tensor>& out) {
  if (!is_ready || interpreter) {
    auto results = guarded([&] { return interpret(in); });
    if (!results) return results.error();
    if (results.value()) return out = std::move(*results.value()), Status();
  }
  return variants ? variants->run(in, out) : runner->run(in, out);
}

Status Executable::Impl::run_into(std::span<const TensorView> in, std::span<const TensorView> out) {
  if (!is_ready || interpreter) {
    auto copied = guarded([&] {
      auto results = interpret(in);
      if (results) copy_results(*results, out);
      return results.has_value();
    });
    if (!copied) return copied.error();
    if (copied.value()) return {};
  }
  return variants ? variants->run_into(in, out) : runner->run_into(in, out);
}

} // namespace tenon
