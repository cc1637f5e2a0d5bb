// `tenon man`: the manual page, from the parser and the table of environment variables.
#include <fmt/format.h>

#include "base/env.h"
#include "cli/documents.h"
#include "tenon/tenon.c.h"

namespace tenon::cli {

namespace {

// Hyphens are those of options; a dot or quote at the start of a line would be a request.
std::string roff(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '-' ? "\\-" : c == '\\' ? "\\e" : std::string(1, c);
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

std::string synopsis(const CLI::App& command) {
  std::string out = fmt::format("\\fBtenon {}\\fR [\\fIoptions\\fR]", roff(command.get_name()));
  for (const CLI::Option* o : options_of(command)) {
    if (!o->nonpositional()) out += fmt::format(" \\fI{}\\fR{}", roff(name_of(*o)), o->get_items_expected_max() > 1 ? " ..." : "");
    else if (o->get_required()) out += fmt::format(" \\fB{}\\fR \\fI{}\\fR", roff(name_of(*o)), roff(o->get_type_name()));
  }
  return out;
}

std::string entry(const CLI::Option& o) {
  std::string names;
  if (!o.nonpositional()) names = fmt::format("\\fI{}\\fR", roff(name_of(o)));
  for (auto& s : o.get_snames()) names += fmt::format("\\fB\\-{}\\fR", roff(s));
  for (auto& l : o.get_lnames()) names += fmt::format("{}\\fB\\-\\-{}\\fR", names.empty() ? "" : ", ", roff(l));
  if (o.nonpositional() && o.get_items_expected_max() > 0) names += fmt::format(" \\fI{}\\fR", roff(o.get_type_name()));
  return fmt::format(".TP\n{}\n{}\n", names, roff(o.get_description()));
}

std::string section(const CLI::App& command) {
  std::string out = fmt::format(".SS {}\n{}\n.PP\n{}.\n", roff(command.get_name()), synopsis(command), roff(command.get_description()));
  for (const CLI::Option* o : options_of(command))
    if (name_of(*o) != "--help") out += entry(*o);
  return out;
}

constexpr const char* rest = R"(.SH EXIT STATUS
.TP
0
what was asked for is done; of
.B check:
every program passed.
.TP
1
an error, told in one line on standard error; of
.B check:
a program failed or is not supported.
.SH EXAMPLES
.TP
Run a program on the example inputs in its archive:
.B tenon run model.pt2
.TP
Compile it once, and run the result on other inputs:
.B tenon compile model.pt2 \-o model.tenon && tenon run model.tenon \-\-inputs x.npz \-o y.npz
.TP
Where the time goes:
.B tenon explain model.pt2
.TP
What would make it faster on this machine:
.B tenon doctor
.SH SEE ALSO
The pages in the documentation of tenon: docs/tool.md has the fields of what
.B \-\-json
prints.
)";

} // namespace

std::string man_page(const CLI::App& app) {
  std::string out = fmt::format(".TH TENON 1 \"\" \"tenon {}\"\n.SH NAME\ntenon \\- run programs exported by torch.export as native code\n",
                                tenon_version());
  out += ".SH SYNOPSIS\n\\fBtenon\\fR \\fIcommand\\fR [\\fIoptions\\fR]\n.SH DESCRIPTION\ntenon loads a program that torch.export wrote, a "
         ".pt2, compiles it "
         "for the CPU it runs on, and runs it: without Python, PyTorch or a compiler.\n.SH COMMANDS\n";
  for (const CLI::App* c : commands_of(app)) out += section(*c);
  out += ".SH ENVIRONMENT\n";
  for (const EnvVariable& v : env_variables()) out += fmt::format(".TP\n.B {}\n{}\n", roff(v.name), roff(v.what));
  return out + rest;
}

} // namespace tenon::cli
