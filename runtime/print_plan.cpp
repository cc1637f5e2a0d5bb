// A plan as text: inputs, buffers, the size program, steps, outputs.
#include <bit>

#include <fmt/ranges.h>

#include "runtime/plan.h"

namespace tenon {

namespace {

constexpr const char* place_names[] = {"arena", "input", "output", "constant", "state", "alias", "dynamic", "part"};

class Printer {
public:
  explicit Printer(const Plan& plan) : plan_(plan), written_(written_slots(plan)) {}

  std::string run() {
    for (auto& in : plan_.inputs) input(in);
    for (size_t i = 0; i < plan_.buffers.size(); i++) buffer(i);
    for (size_t s = 0; s < plan_.sizes.stages.size(); s++) stage(s, plan_.sizes.stages[s]);
    steps(plan_.steps, 0);
    for (auto& o : plan_.outputs) {
      if (o.is_state) line(0, "state{} <- b{}", o.state, o.buffer);
      else if (o.input >= 0) line(0, "input{} <- b{}", o.input, o.buffer);
      else if (o.order.empty()) line(0, "return out{} = b{}", o.returned_as, o.buffer);
      else line(0, "return out{} = b{}, memory in the order of dims {}", o.returned_as, o.buffer, fmt::join(o.order, " "));
    }
    return std::move(text_);
  }

private:
  template <class... T> void line(int depth, fmt::format_string<T...> format, T&&... args) {
    text_.append(static_cast<size_t>(depth) * 2, ' ');
    fmt::format_to(std::back_inserter(text_), format, std::forward<T>(args)...);
    text_ += '\n';
  }
  std::string slot(Slot s) const {
    if (s < 0) return "-";
    size_t i = static_cast<size_t>(s);
    return written_[i] ? fmt::format("s{}", s) : fmt::format("{}", plan_.sizes.initial[i]);
  }
  std::string slots(const std::vector<Slot>& list) const {
    std::vector<std::string> parts;
    for (Slot s : list) parts.push_back(slot(s));
    return fmt::format("{}", fmt::join(parts, ", "));
  }
  static std::string buffers(const std::vector<int>& list) {
    std::vector<std::string> parts;
    for (int b : list) parts.push_back(b < 0 ? "scratch" : fmt::format("b{}", b));
    return fmt::format("{}", fmt::join(parts, ", "));
  }

  void input(const InputSpec& in) {
    std::vector<std::string> dims;
    for (auto& d : in.dims) {
      if (d.kind == InputDim::Kind::Equal) dims.push_back(fmt::format("={}", d.text));
      else dims.push_back(fmt::format("{}: {} in {}..{}", slot(d.slot), d.text, d.lo, d.hi == INT64_MAX ? "" : std::to_string(d.hi)));
      if (d.in_code) dims.back() += " (in code)";
    }
    if (in.is_fixed) line(0, "input {} = {}", in.name, in.fixed);
    else if (in.is_number) line(0, "input {}: {} number -> {}", in.name, name_of(in.dtype), slot(in.number_slot));
    else line(0, "input {}: {}[{}] -> b{}", in.name, name_of(in.dtype), fmt::join(dims, ", "), in.buffer);
  }
  void buffer(size_t i) {
    const PlanBuffer& b = plan_.buffers[i];
    std::string more;
    if (b.place == BufferPlace::Arena || b.place == BufferPlace::Output)
      more = fmt::format(" {} bytes, steps {}..{}", slot(b.bytes), b.first, b.last);
    if (b.place == BufferPlace::Part) more = fmt::format(" of b{} from byte {}", b.index, slot(b.offset));
    line(0, "b{}: {}[{}] {}{}{}{}", i, name_of(b.dtype), slots(b.sizes), place_names[static_cast<int>(b.place)], more,
         b.name.empty() ? "" : " # ", b.name);
  }
  void stage(size_t number, const SizeStage& stage) {
    for (const SlotRange& r : stage.ranges) line(0, "stage {}: s{} in {} # {}", number, r.slot, text_of(r.range), r.range.name);
    for (const SizeInstruction& i : stage.instructions) {
      std::vector<Slot> args{i.a, i.b, i.c};
      args.resize(static_cast<size_t>(operands_of(i.op)));
      line(0, "stage {}: s{} = {}.{}({}){}", number, i.out, name_of_size_op(i.op), name_of(i.type), slots(args), i.exact ? " exact" : "");
    }
  }

  std::string call(const KernelStep& s) const {
    return fmt::format("kernel {} ({}; {}) over {}", s.kernel, buffers(s.buffers), slots(s.scalars), slot(s.iterations));
  }
  std::string tile(const TileKernel& t) const {
    return t.kernel < 0 ? "" : fmt::format(" then kernel {} ({}; {})", t.kernel, buffers(t.buffers), slots(t.scalars));
  }
  std::string call(const MatmulStep& s) const {
    return fmt::format("matmul b{}[{}x{}] {}x{}x{} of b{}(+{}; {}, {}; {}, {}) and {}(+{}; {}, {}; {}, {}){}", s.c, slot(s.batch[0]),
                       slot(s.batch[1]), slot(s.m), slot(s.n), slot(s.k), s.a, slot(s.a_offset), slot(s.a_batch[0]), slot(s.a_batch[1]),
                       slot(s.a_row), slot(s.a_k),
                       s.packed >= 0  ? fmt::format("packed {}", s.packed)
                       : s.later >= 0 ? fmt::format("b{}, later packed {}", s.b, s.later)
                                      : fmt::format("b{}", s.b),
                       slot(s.b_offset), slot(s.b_batch[0]), slot(s.b_batch[1]), slot(s.b_k), slot(s.b_n), tile(s.epilogue));
  }
  std::string call(const ConvStep& s) const {
    const ConvWindow& w = s.shape.window;
    return fmt::format("{}conv b{} of b{}{}, batch {}, {} to {} channels, groups {}, window {}, stride {}, padding {}, dilation {}{}",
                       s.shape.transposed ? "transposed " : "", s.output, s.input,
                       s.weight < 0 ? fmt::format(" and packed {}", s.packed) : fmt::format(" and b{}", s.weight), slot(s.batch),
                       s.shape.in_channels, s.shape.out_channels, s.shape.groups, fmt::join(w.kernel, "x"), fmt::join(w.stride, "x"),
                       fmt::join(w.pad, "x"), fmt::join(w.dilation, "x"), tile(s.epilogue));
  }
  std::string call(const AttentionStep& s) const {
    std::string text = fmt::format("attention [{}] {}x{}x{}, {} columns, of", slots({std::begin(s.digits), std::end(s.digits)}),
                                   slot(s.rows), slot(s.keys), slot(s.depth), slot(s.columns));
    for (auto* o : {&s.q, &s.k, &s.v})
      text += fmt::format(" b{}(+{}; {}; {}, {})", o->buffer, slot(o->offset), slots({std::begin(o->batch), std::end(o->batch)}),
                          slot(o->row), slot(o->column));
    return text + fmt::format(", keys in {}..{}{}{}", slot(s.lower), slot(s.upper), tile(s.score), tile(s.finish));
  }
  std::string call(const LibraryStepCall& s) const {
    const std::string& name = plan_.library[static_cast<size_t>(s.function)];
    return fmt::format("{} ({}) of ({}; {}; {})", name.empty() ? "custom operator" : name, buffers(s.outputs), buffers(s.inputs),
                       slots(s.ints), fmt::join(s.numbers, ", "));
  }
  std::string call(const CollectiveStep& s) const {
    return fmt::format("{}{} b{} of (b{}; {}; {}), request {}", s.waits ? "" : "begin ", plan_.library[static_cast<size_t>(s.function)],
                       s.output, s.input, slots(s.ints), fmt::join(s.texts, ", "), s.request);
  }
  std::string call(const WaitStep& s) const { return fmt::format("wait for request {}, b{} of b{}", s.request, s.output, s.input); }
  std::string call(const FallbackStep& s) const { return fmt::format("interpreter, graph {}", s.number); }
  std::string call(const DelegateStep& s) const {
    return fmt::format("{}: {} ({}) of ({}; {})", s.backend, s.operators, buffers(s.outputs), buffers(s.inputs), slots(s.sizes));
  }
  std::string call(const IfStep& s) const {
    return fmt::format("if {}", s.condition >= 0 ? fmt::format("b{}", s.condition) : slot(s.condition_slot));
  }
  std::string call(const CopyStep& s) const { return fmt::format("copy b{} to b{}", s.from, s.to); }
  std::string call(const WhileStep& s) const {
    return fmt::format("while {}", s.flag >= 0 ? fmt::format("b{}", s.flag) : slot(s.flag_slot));
  }
  std::string call(const ScanStep& s) const { return fmt::format("scan {} steps{}", slot(s.steps), s.reverse ? ", last first" : ""); }
  std::string call(const ItemStep& s) const { return fmt::format("{} = b{}", slot(s.slot), s.buffer); }
  std::string call(const ScalarStep& s) const { return fmt::format("b{} = {}", s.buffer, slot(s.slot)); }
  std::string call(const PrintStep& s) const { return fmt::format("print {} texts", s.texts.size()); }
  std::string call(const AssertStep& s) const { return fmt::format("assert {}: {}", slot(s.condition), s.message); }

  void steps(const std::vector<Step>& list, int depth) {
    for (const Step& s : list) {
      std::string what = std::visit([&](auto& x) { return call(x); }, s.run);
      line(depth, "step {}: {}{}{}", s.number, what, s.binds ? fmt::format(", then stage {}", s.binds) : "",
           s.what.empty() ? "" : "  # " + s.what);
      if (auto* i = std::get_if<IfStep>(&s.run)) steps(i->branches[0], depth + 1), line(depth, "else"), steps(i->branches[1], depth + 1);
      if (auto* w = std::get_if<WhileStep>(&s.run)) steps(w->condition, depth + 1), line(depth, "do"), steps(w->body, depth + 1);
      if (auto* c = std::get_if<ScanStep>(&s.run)) {
        for (auto& x : c->slices) line(depth + 1, "b{} = slice of b{}, {} bytes", x.slice, x.whole, slot(x.stride));
        for (auto& x : c->carried)
          line(depth + 1, "b{} = b{}, then b{}{}; b{} at last", x.now, x.first, x.next,
               x.stacked < 0 ? fmt::format(" in b{} and b{}", x.spare, x.last) : "", x.last);
        steps(c->body, depth + 1);
      }
    }
  }

  const Plan& plan_;
  std::vector<bool> written_; // slots that nothing writes are constants, shown as numbers
  std::string text_;
};

} // namespace

std::string to_string(const Plan& plan) { return Printer(plan).run(); }

} // namespace tenon
