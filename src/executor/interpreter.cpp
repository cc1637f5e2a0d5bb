#include "executor/interpreter.h"

#include "base/stop_point.h"
#include "builtins/dict.h"
#include "builtins/elements.h"
#include "builtins/resolve.h"

namespace tenon::executor {

Interpreter::Interpreter(std::shared_ptr<const Code> code, std::vector<IValue> inputs, Printer printer)
    : code_(std::move(code)), registers_(std::move(inputs)), printer_(std::move(printer)) {
  require_input(registers_.size() == code_->num_params, "{} inputs are given, the program takes {}", registers_.size(), code_->num_params);
  registers_.resize(code_->num_registers);
}

namespace {

bool holds(const IValue& v) {
  if (v.is(IValue::Tag::Bool)) return v.to_bool();
  if (v.is(IValue::Tag::Tensor)) return builtins::is_true(v.to_tensor());
  return v.number() != 0;
}

// Of an operand: moved out of where it is read for the last time.
IValue take(std::vector<IValue>& registers, uint32_t operand) {
  return operand & last_use ? std::move(registers[operand & ~last_use]) : registers[operand];
}

[[noreturn]] void raise_exception(const IValue& message, const IValue* cls) {
  std::string name = cls && cls->is(IValue::Tag::String) ? cls->to_string() : "";
  if (name.starts_with("builtins.")) name = name.substr(9);
  if (name.empty()) name = "RuntimeError";
  std::string text = message.is(IValue::Tag::String) ? message.to_string() : str(message);
  raise(name, text.empty() ? name : text);
}

void unpack(const IValue& from, std::vector<IValue>& registers, const uint32_t* results, size_t count) {
  bool is_list = from.is(IValue::Tag::List);
  const std::vector<IValue>& items = is_list ? from.to_list() : from.to_tuple();
  if (items.size() != count)
    raise("RuntimeError", fmt::format("Expected {} elements in a {} but found {}", count, is_list ? "list" : "tuple", items.size()));
  std::vector<IValue> copy = items; // a result may be the register of what is unpacked
  for (size_t i = 0; i < count; i++) registers[results[i]] = std::move(copy[i]);
}

const IValue& element(const std::vector<IValue>& items, int64_t i, std::string_view what) {
  if (i < 0) i += static_cast<int64_t>(items.size());
  if (i < 0 || i >= static_cast<int64_t>(items.size())) raise("IndexError", fmt::format("{} index out of range", what));
  return items[static_cast<size_t>(i)];
}

int64_t wrap_add(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }
int64_t wrap_sub(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b)); }
int64_t wrap_mul(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); }

void print(std::span<const uint32_t> operands, const std::vector<IValue>& registers, const Printer& printer) {
  std::string line;
  for (size_t i = 0; i < operands.size(); i++) line += (i ? " " : "") + str(registers[operands[i] & ~last_use]);
  line += '\n';
  printer ? printer(line) : fmt::print("{}", line);
}

// The error with the place in the source, where it has none yet.
[[noreturn]] void throw_at(const Error& e, const Origin* origin) {
  bool stays = !origin || origin->range.empty() || std::string_view(e.what()).find("\n  at ") != std::string_view::npos;
  if (stays) throw e;
  throw Error(e.kind, fmt::format("{}\n  at {}", e.what(), origin->range), origin->range);
}

/// One instruction that is neither a jump nor arithmetic.
class Step {
public:
  Step(const Code& code, const Instruction& i, std::vector<IValue>& registers, std::vector<IValue>& scratch, const Printer& printer)
      : c_(code), i_(i), r_(registers), scratch_(scratch), printer_(printer), results_(code.operands.data() + i.operands),
        args_(results_ + i.results) {}

  void run() {
    switch (i_.code) {
    case OpCode::List: return make_list();
    case OpCode::Tuple: return set(0, IValue::tuple(taken()));
    case OpCode::Dict: return make_dict();
    case OpCode::Unpack: {
      IValue from = take(r_, args_[0]);
      return unpack(from, r_, results_, i_.results);
    }
    case OpCode::Element: return set(0, IValue(element(arg(0).to_tuple(), arg(1).to_int(), "Tuple")));
    case OpCode::Raise: raise_exception(arg(0), i_.args > 1 ? &arg(1) : nullptr);
    case OpCode::Print: return print({args_, i_.args}, r_, printer_);
    case OpCode::Check: return check();
    case OpCode::Unwrap:
      if (arg(0).is_none()) raise("RuntimeError", "Unwrapping null optional");
      return set(0, take(r_, args_[0]));
    case OpCode::Builtin: return call_builtin();
    case OpCode::Tensor: return call_tensor();
    default: internal_error("an instruction that is not known");
    }
  }

private:
  const IValue& arg(size_t i) const { return r_[args_[i] & ~last_use]; }
  void set(size_t i, IValue v) { r_[results_[i]] = std::move(v); }
  std::vector<IValue> taken() {
    std::vector<IValue> out;
    out.reserve(i_.args);
    for (size_t k = 0; k < i_.args; k++) out.push_back(take(r_, args_[k]));
    return out;
  }
  void make_list() {
    if (i_.target == 1) return set(0, IValue::list(arg(0).to_tuple())); // of a tuple's elements
    set(0, IValue::list(taken()));
  }
  void make_dict() {
    IValue dict = IValue::dict();
    for (size_t k = 0; k + 1 < i_.args; k += 2) dict.to_dict().set(arg(k), arg(k + 1));
    set(0, std::move(dict));
  }
  void check() {
    Type actual = type_of(arg(0));
    bool is = false;
    for (const Type& t : c_.type_lists[i_.target]) is |= is_subtype(actual, t);
    set(0, is);
  }
  void call_builtin() {
    size_t args = i_.args, results = i_.results;
    scratch_.resize(std::max(scratch_.size(), args + results));
    for (size_t k = 0; k < args; k++) scratch_[k] = take(r_, args_[k]);
    const BuiltinUse& use = c_.builtins[i_.target];
    BuiltinCall call{{scratch_.data(), args}, {scratch_.data() + args, results}, use.state.get()};
    use.op->run(call);
    for (size_t k = 0; k < results; k++) set(k, std::move(scratch_[args + k]));
    for (size_t k = 0; k < args; k++) scratch_[k] = {};
  }
  void call_tensor() {
    std::vector<IValue> args = taken();
    std::vector<IValue> results = c_.tensor_ops[i_.target]->run(args);
    for (size_t k = 0; k < i_.results; k++) set(k, std::move(results.at(k)));
  }

  const Code& c_;
  const Instruction& i_;
  std::vector<IValue>&r_, &scratch_;
  const Printer& printer_;
  const uint32_t *results_, *args_;
};

} // namespace

bool Interpreter::run(uint64_t most) {
  const Code& c = *code_;
  auto& r = registers_;
  while (true) {
    const Instruction& i = c.instructions[at_];
    const uint32_t* o = c.operands.data() + i.operands;
    auto in = [&](size_t k) -> const IValue& { return r[o[k] & ~last_use]; };
    try {
      switch (i.code) {
      case OpCode::Jump:
        if (i.target <= at_) {
          stop_point();
          if (most-- == 0) return false;
        }
        at_ = i.target;
        continue;
      case OpCode::JumpUnless: at_ = holds(in(0)) ? at_ + 1 : i.target; continue;
      case OpCode::LoopTest: at_ = in(1).to_int() < in(0).to_int() && holds(in(2)) ? at_ + 1 : i.target; continue;
      case OpCode::Again:
        stop_point();
        if (most-- == 0) return false;
        r[o[0]] = r[o[0]].to_int() + 1, r[o[1]] = r[o[0]];
        at_ = r[o[0]].to_int() < in(2).to_int() && holds(in(3)) ? i.target : at_ + 1;
        continue;
      case OpCode::Return:
        for (size_t k = 0; k < i.args; k++) results_.push_back(in(k));
        return true;
      case OpCode::Load: r[o[0]] = c.constants[i.target]; break;
      case OpCode::Move: r[o[0]] = take(r, o[1]); break;
      case OpCode::Drop:
        for (size_t k = 0; k < i.args; k++) r[o[k]] = {};
        break;
      case OpCode::AddInt: r[o[0]] = wrap_add(in(1).to_int(), in(2).to_int()); break;
      case OpCode::SubInt: r[o[0]] = wrap_sub(in(1).to_int(), in(2).to_int()); break;
      case OpCode::MulInt: r[o[0]] = wrap_mul(in(1).to_int(), in(2).to_int()); break;
      case OpCode::LtInt: r[o[0]] = in(1).to_int() < in(2).to_int(); break;
      case OpCode::LeInt: r[o[0]] = in(1).to_int() <= in(2).to_int(); break;
      case OpCode::GtInt: r[o[0]] = in(1).to_int() > in(2).to_int(); break;
      case OpCode::GeInt: r[o[0]] = in(1).to_int() >= in(2).to_int(); break;
      case OpCode::EqInt: r[o[0]] = in(1).to_int() == in(2).to_int(); break;
      case OpCode::NeInt: r[o[0]] = in(1).to_int() != in(2).to_int(); break;
      case OpCode::AddFloat: r[o[0]] = in(1).to_double() + in(2).to_double(); break;
      case OpCode::SubFloat: r[o[0]] = in(1).to_double() - in(2).to_double(); break;
      case OpCode::MulFloat: r[o[0]] = in(1).to_double() * in(2).to_double(); break;
      case OpCode::LtFloat: r[o[0]] = in(1).to_double() < in(2).to_double(); break;
      case OpCode::GtFloat: r[o[0]] = in(1).to_double() > in(2).to_double(); break;
      case OpCode::And: r[o[0]] = in(1).to_bool() && in(2).to_bool(); break;
      case OpCode::Or: r[o[0]] = in(1).to_bool() || in(2).to_bool(); break;
      case OpCode::Not: r[o[0]] = !in(1).to_bool(); break;
      default: Step(c, i, r, scratch_, printer_).run();
      }
    } catch (const Error& e) {
      throw_at(e, c.origins[at_].get());
    }
    at_++;
  }
}

std::vector<IValue> run(const std::shared_ptr<const Code>& code, std::vector<IValue> inputs, Printer printer) {
  Interpreter i(code, std::move(inputs), std::move(printer));
  i.run();
  return i.results();
}

} // namespace tenon::executor
