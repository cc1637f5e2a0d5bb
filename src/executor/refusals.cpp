#include "executor/refusals.h"

#include <charconv>

namespace tenon::executor {

namespace {

bool can_cast(DType from, DType to) {
  if (is_complex(from) && !is_complex(to)) return false;
  if (is_float(from) && !is_float(to) && !is_complex(to)) return false;
  return from == DType::Bool || to != DType::Bool;
}

// The number behind `before`.
std::optional<int64_t> number_after(std::string_view text, std::string_view before) {
  size_t at = text.find(before);
  if (at == text.npos) return std::nullopt;
  int64_t n = 0;
  auto [end, error] = std::from_chars(text.data() + at + before.size(), text.data() + text.size(), n);
  return error == std::errc() ? std::optional(n) : std::nullopt;
}

// Which dim of its first operand a call looks up the index in.
std::optional<int64_t> indexed_dim(const Schema& s, std::span<const IValue> args, int64_t size) {
  auto argument = [&](std::string_view name) -> const IValue* {
    int i = s.find(name);
    return i < 0 || static_cast<size_t>(i) >= args.size() ? nullptr : &args[static_cast<size_t>(i)];
  };
  if (args.empty() || !args[0].is(IValue::Tag::Tensor)) return std::nullopt;
  const Tensor& self = args[0].to_tensor();
  if (const IValue *dim = argument("dim"), *index = argument("index"); dim && index && dim->is(IValue::Tag::Int))
    return dim->to_int() < 0 ? dim->to_int() + static_cast<int64_t>(self.rank()) : dim->to_int();
  if (const IValue* indices = argument("indices"); indices && indices->is(IValue::Tag::List))
    for (size_t d = 0; d < std::min(indices->to_list().size(), self.rank()); d++)
      if (!indices->to_list()[d].is_none() && self.sizes()[d] == size) return static_cast<int64_t>(d);
  return std::nullopt;
}

} // namespace

void check_copied(const Tensor& self, const Tensor& from) {
  for (size_t k = 1; k <= std::min(self.rank(), from.rank()); k++) {
    int64_t a = self.sizes()[self.rank() - k], b = from.sizes()[from.rank() - k];
    if (b != 1 && a != b)
      bad_input("The size of tensor a ({}) must match the size of tensor b ({}) at non-singleton dimension {}", a, b, self.rank() - k);
  }
}

void check_written(const Tensor& self, const Type& result) {
  std::vector<int64_t> sizes;
  for (Expr e : result.sizes) {
    auto n = const_int(e);
    if (!n) return;
    sizes.push_back(*n);
  }
  if (!std::equal(sizes.begin(), sizes.end(), self.sizes().begin(), self.sizes().end()))
    bad_input("output with shape [{}] doesn't match the broadcast shape [{}]", fmt::join(self.sizes(), ", "), fmt::join(sizes, ", "));
  if (!can_cast(result.dtype, self.dtype()))
    bad_input("result type {} can't be cast to the desired output type {}", torch_name(result.dtype), torch_name(self.dtype()));
  for (size_t d = 0; d < self.rank(); d++)
    if (self.sizes()[d] > 1 && self.strides()[d] == 0)
      bad_input(
          "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please clone() the "
          "tensor before performing the operation.");
}

std::string torch_message(std::string_view message, const Schema& signature, std::span<const IValue> args) {
  constexpr std::string_view of_size = " is out of range for size ";
  auto index = number_after(message, ": index "), size = number_after(message, of_size);
  if (!index || !size) return std::string(message);
  if (signature.find("target") >= 0) return fmt::format("Target {} is out of bounds.", *index);
  if (auto dim = indexed_dim(signature, args, *size))
    return fmt::format("index {} is out of bounds for dimension {} with size {}", *index, *dim, *size);
  return "index out of range in self";
}

} // namespace tenon::executor
