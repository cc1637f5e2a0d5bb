"""embed.py OUT FILE...: the files as a C++ header, of names and texts."""
import os, sys

out, *files = sys.argv[1:]
with open(out, "w") as header:
    header.write("#pragma once\n#include <string_view>\n#include <utility>\n\ninline constexpr std::pair<const char*, std::string_view> against_files[] = {\n")
    for path in files:
        with open(path) as file:
            text = file.read()
        assert ')text"' not in text, path
        # In parts: compilers need not take longer ones than 64 kB.
        parts = "\n".join(f'R"text({text[i:i + 16000]})text"' for i in range(0, len(text), 16000))
        header.write(f'    {{"{os.path.basename(path)}", {parts}}},\n')
    header.write("};\n")
