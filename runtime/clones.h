// Variants of a function for wider vectors, of which the loader picks. Not under ThreadSanitizer: it would enter the
// picking function before it is ready.
#pragma once

#if defined(__SANITIZE_THREAD__) || defined(__clang__)
#define TENON_CLONES
#else
#define TENON_CLONES [[gnu::target_clones("arch=skylake-avx512", "arch=haswell", "default")]]
#endif
