// `tenon doctor`, `tenon version`: what this machine has, what would make tenon faster on it, what this build is.
#include <cmath>

#include <fmt/ranges.h>

#include "base/env.h"
#include "base/json_text.h"
#include "base/machine.h"
#include "cli/advice.h"
#include "cli/commands.h"
#include "cli/print.h"
#include "compile/host.h"
#include "tenon/tenon.c.h"

namespace tenon::cli {

namespace {

std::vector<std::string> variables_set() {
  std::vector<std::string> out;
  for (const EnvVariable& v : env_variables())
    if (env_text(v.name)) out.emplace_back(v.name);
  return out;
}

/// How this program was built.
std::vector<std::string> build_options() {
  std::vector<std::string> out;
#if defined(__clang__)
  out.push_back("clang " __clang_version__);
#else
  out.push_back("gcc " __VERSION__);
#endif
#ifdef __OPTIMIZE__
  out.push_back("optimised");
#else
  out.push_back("not optimised");
#endif
#ifndef NDEBUG
  out.push_back("checks");
#endif
#ifdef __SANITIZE_ADDRESS__
  out.push_back("address sanitizer");
#endif
#ifdef __SANITIZE_THREAD__
  out.push_back("thread sanitizer");
#endif
  return out;
}

std::string json_list(const std::vector<std::string>& words) {
  return json_array(words, [](const std::string& w) { return json_quote(w); });
}
template <class T> std::string json_or_null(const std::optional<T>& v) {
  if constexpr (std::is_same_v<T, bool>) return v ? (*v ? "true" : "false") : "null";
  else return v ? fmt::format("{}", *v) : "null";
}
std::string text_or_null(const std::string& s) { return s.empty() ? "null" : json_quote(s); }

std::string size_text(uint64_t bytes) {
  double b = static_cast<double>(bytes);
  if (b >= 1 << 30) return fmt::format("{:.1f} GiB", b / (1 << 30));
  if (b >= 1 << 20) return fmt::format("{:.0f} MiB", b / (1 << 20));
  return fmt::format("{:.0f} KiB", b / 1024);
}
std::string size_text(const std::optional<uint64_t>& bytes) { return bytes ? size_text(*bytes) : "unknown"; }

JsonObject& add_host(JsonObject& json, const Host& host) {
  return json.json("isa", text_or_null(host.isa)).json("extensions", json_list(host.extensions)).json("kernels", json_list(host.families));
}

std::string json_of(const CpuFacts& c) {
  return JsonObject()
      .json("model", text_or_null(c.model))
      .count("online", static_cast<uint64_t>(c.online))
      .count("cores", static_cast<uint64_t>(c.cores))
      .count("allowed", static_cast<uint64_t>(c.allowed))
      .text("allowed_list", c.allowed_list)
      .count("allowed_cores", static_cast<uint64_t>(c.allowed_cores))
      .json("quota", json_or_null(c.quota))
      .json("throttled", json_or_null(c.throttled))
      .json("governors", json_list(c.governors))
      .json("boost", json_or_null(c.boost))
      .json("load", json_or_null(c.load))
      .flag("virtual", c.is_virtual)
      .str();
}
std::string json_of(const MemoryFacts& m) {
  return JsonObject()
      .json("total", json_or_null(m.total))
      .json("available", json_or_null(m.available))
      .json("swap_used", json_or_null(m.swap_used))
      .json("limit", json_or_null(m.limit))
      .json("used", json_or_null(m.used))
      .json("huge_pages", text_or_null(m.huge_pages))
      .str();
}
std::string json_of(const NumaNode& n) {
  return JsonObject().count("node", static_cast<uint64_t>(n.number)).text("cpus", n.cpus).json("bytes", json_or_null(n.bytes)).str();
}
std::string json_of(const HostSpeed& s) {
  auto peak = [](const HostSpeed::Peak& p) {
    return JsonObject().text("type", p.type).text("kernel", p.family).number("gflops", p.flops_per_ns, 1).str();
  };
  return JsonObject()
      .count("threads", static_cast<uint64_t>(s.threads))
      .json("peaks", json_array(s.peaks, peak))
      .number("copy_gb_per_s", s.bytes_per_ns, 2)
      .json("handover_ns", s.handover_ns > 0 ? fmt::format("{:.0f}", s.handover_ns) : "null")
      .str();
}
std::string json_of(const Advice& a) { return JsonObject().text("what", a.what).text("why", a.why).text("how", a.how).str(); }

void print_json(const MachineFacts& facts, const Host& host, const std::vector<HostSpeed>& speeds, const std::vector<Advice>& advice) {
  JsonObject json;
  json.text("version", tenon_version()).json("system", text_or_null(facts.system)).json("cpu", json_of(facts.cpu));
  add_host(json, host)
      .json("caches", JsonObject().count("l1", host.l1_bytes).count("l2", host.l2_bytes).count("l3", host.l3_bytes).str())
      .json("memory", json_of(facts.memory))
      .json("nodes", json_array(facts.nodes, [](auto& n) { return json_of(n); }))
      .json("variables", json_list(variables_set()))
      .json("measured", json_array(speeds, [](auto& s) { return json_of(s); }))
      .json("advice", json_array(advice, [](auto& a) { return json_of(a); }));
  fmt::print("{}\n", json.str());
}

void print_cpu(const CpuFacts& c) {
  fmt::print("cpu       {}{}\n", c.model.empty() ? "unknown" : c.model, c.is_virtual ? ", of a virtual machine" : "");
  std::string cores = c.cores > 0 ? fmt::format(", {} cores", c.cores) : "";
  fmt::print("threads   {} of {} CPUs ({}){}; {}; load {}\n", c.allowed, c.online, c.allowed_list, cores,
             c.quota ? fmt::format("a quota of {:.2f} CPUs", *c.quota) : "no quota", c.load ? fmt::format("{:.2f}", *c.load) : "unknown");
  fmt::print("clocks    governor {}, boost {}\n", c.governors.empty() ? "unknown" : fmt::format("{}", fmt::join(c.governors, ", ")),
             c.boost ? (*c.boost ? "on" : "off") : "unknown");
}

void print_text(const MachineFacts& facts, const Host& host, const std::vector<HostSpeed>& speeds, const std::vector<Advice>& advice) {
  fmt::print("tenon     {}, LLVM {}; {}\n", tenon_version(), llvm_version(), facts.system);
  print_cpu(facts.cpu);
  fmt::print("code      {}; kernels {}\n",
             host.isa.empty() ? host.refused : fmt::format("{} {}", host.isa, fmt::join(host.extensions, " ")),
             fmt::join(host.families, " "));
  fmt::print("caches    L1 {}, L2 {}, L3 {}\n", size_text(host.l1_bytes), size_text(host.l2_bytes), size_text(host.l3_bytes));
  const MemoryFacts& m = facts.memory;
  fmt::print("memory    {}, {} available; {}; transparent huge pages: {}\n", size_text(m.total), size_text(m.available),
             m.limit ? fmt::format("a limit of {}, {} used", size_text(m.limit), size_text(m.used)) : "no limit",
             m.huge_pages.empty() ? "unknown" : m.huge_pages);
  fmt::print("numa      {}\n",
             facts.nodes.empty() ? "unknown" : fmt::format("{} {}", facts.nodes.size(), facts.nodes.size() == 1 ? "node" : "nodes"));
  for (const HostSpeed& s : speeds) {
    fmt::print("measured  {} thread{}: ", s.threads, s.threads == 1 ? "" : "s");
    for (const HostSpeed::Peak& p : s.peaks) fmt::print("{} {:.0f} GFLOP/s ({}), ", p.type, p.flops_per_ns, p.family);
    fmt::print("copies {:.1f} GB/s{}\n", s.bytes_per_ns,
               s.handover_ns > 0 ? fmt::format(", {:.0f} ns from one to another", s.handover_ns) : "");
  }
  if (advice.empty()) fmt::print("\nNothing is in the way.\n");
  else fmt::print("\nWhat may make tenon faster here:\n");
  for (const Advice& a : advice) fmt::print("- {}: {}.\n    {}\n", a.what, a.why, a.how);
}

} // namespace

int doctor(const DoctorArgs& args) {
  MachineFacts facts = machine_facts();
  Host host = describe_host();
  std::vector<HostSpeed> speeds;
  if (args.measure && !host.isa.empty()) {
    speeds.push_back(measure_host(1));
    if (HostSpeed all = measure_host(0); all.threads > 1) speeds.push_back(all);
  }
  std::vector<Advice> advice = advice_for(facts, host, speeds, variables_set());
  args.json ? print_json(facts, host, speeds, advice) : print_text(facts, host, speeds, advice);
  return 0;
}

int version(bool as_json) {
  Host host = describe_host();
  std::string cpu = machine_facts().cpu.model;
  if (as_json) {
    JsonObject json;
    json.text("version", tenon_version()).text("llvm", llvm_version()).json("cpu", text_or_null(cpu));
    fmt::print("{}\n", add_host(json, host).json("build", json_list(build_options())).str());
    return 0;
  }
  fmt::print("tenon {}\n", tenon_version());
  fmt::print("LLVM {}\n", llvm_version());
  fmt::print("cpu: {}\n", cpu.empty() ? "unknown" : cpu);
  fmt::print("code: {}\n", host.isa.empty() ? host.refused : fmt::format("{} {}", host.isa, fmt::join(host.extensions, " ")));
  fmt::print("kernels: {}\n", fmt::join(host.families, " "));
  fmt::print("build: {}\n", fmt::join(build_options(), ", "));
  return 0;
}

} // namespace tenon::cli
