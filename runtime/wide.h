// Variants of a function for wider vectors.
#pragma once

/// For functions with hot loops: compiled for wider vectors too, by levels of the architecture (a name of a processor
/// would match that one alone). The loader picks, with a function that ThreadSanitizer would enter before it is ready;
/// clang has none for templates. What they call inline, lambdas too, is compiled with them. Static: gcc gives the picking
/// function of any other to all who link the library.
#if defined(__SANITIZE_THREAD__) || defined(__clang__)
#define TENON_WIDE static
#else
#define TENON_WIDE [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]] static
#endif
