// Options by their names, and threads.
#include <functional>
#include <map>

#include "common.h"

namespace tenon::python {

namespace {

using Setter = std::function<void(Options&, nb::handle)>;

template <class T> Setter into(T Options::* member) {
  return [=](Options& o, nb::handle v) { o.*member = nb::cast<T>(v); };
}
template <class T> Setter into(T Specialization::* member) {
  return [=](Options& o, nb::handle v) { o.specialization.*member = nb::cast<T>(v); };
}
template <class T> Setter one_of(T Options::* member, std::map<std::string, T> values) {
  return [=](Options& o, nb::handle v) {
    auto at = values.find(nb::cast<std::string>(v));
    std::string all;
    for (auto& [name, value] : values) all += (all.empty() ? "" : ", ") + name;
    if (at == values.end()) bad_input("there is no " + nb::cast<std::string>(v) + "; there are " + all);
    o.*member = at->second;
  };
}

// All members of tenon::Options, those of Specialization behind specialize_.
const std::map<std::string, Setter>& setters() {
  static const std::map<std::string, Setter> table{
      {"threads", into(&Options::threads)},
      {"pool", into(&Options::pool)},
      {"isa", one_of<Isa>(&Options::isa, {{"auto", Isa::Auto}, {"avx2", Isa::Avx2}, {"avx512", Isa::Avx512}})},
      {"precision",
       one_of<Precision>(&Options::precision,
                         {{"strict", Precision::Strict}, {"bf16", Precision::BF16}, {"int8-weights", Precision::Int8Weights}})},
      {"kernels", into(&Options::kernels)},
      {"interpret", into(&Options::interpret)},
      {"forbid_fallback", into(&Options::forbid_fallback)},
      {"profile", into(&Options::profile)},
      {"seed", into(&Options::seed)},
      {"cache_folder", into(&Options::cache_folder)},
      {"cache_bytes", into(&Options::cache_bytes)},
      {"backends", into(&Options::backends)},
      {"compile_budget_ms", into(&Options::compile_budget_ms)},
      {"specialize_in_background", into(&Specialization::in_background)},
      {"specialize_most", into(&Specialization::most)},
      {"specialize_most_bytes", into(&Specialization::most_bytes)},
      {"specialize_compile_share", into(&Specialization::compile_share)},
  };
  return table;
}

/// with tenon.thread_budget(2): ...
struct Budget {
  int threads;
  std::unique_ptr<ThreadBudget> held = {};
};

} // namespace

Options options_of(const nb::kwargs& kwargs) {
  Options options;
  for (auto [key, value] : kwargs) {
    auto name = nb::cast<std::string>(key);
    auto at = setters().find(name);
    std::string all;
    for (auto& [known, setter] : setters()) all += (all.empty() ? "" : ", ") + known;
    if (at == setters().end()) bad_input("there is no option " + name + "; there are " + all);
    try {
      at->second(options, value);
    } catch (const nb::cast_error&) {
      bad_input("option " + name + ": " + nb::repr(value).c_str() + " is of the wrong type");
    } catch (const Error& e) {
      bad_input("option " + name + ": " + e.what());
    }
  }
  return options;
}

void bind_threads(nb::module_& m) {
  nb::class_<ThreadPool>(m, "ThreadPool", "A pool of so many threads, those that call included; 0: a thread for each core.")
      .def(nb::init<int>(), nb::arg("threads") = 0)
      .def_prop_ro("threads", &ThreadPool::threads);
  nb::class_<Budget>(m, "thread_budget", "A context in which the calls of its thread use at most so many threads.")
      .def(
          "__init__", [](Budget* self, int threads) { new (self) Budget{threads}; }, nb::arg("threads"))
      .def("__enter__", [](Budget& b) { b.held = std::make_unique<ThreadBudget>(b.threads); })
      .def("__exit__", [](Budget& b, nb::args) { b.held.reset(); });
}

} // namespace tenon::python
