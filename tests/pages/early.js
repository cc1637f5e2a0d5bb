// Stands before all other scripts of a page that is tested: what goes wrong is kept for the self-test.
window.problems = [];
addEventListener("error", e => problems.push(`error: ${e.message} at ${e.lineno}`));
addEventListener("unhandledrejection", e => problems.push(`rejected: ${e.reason}`));
addEventListener("securitypolicyviolation", e => problems.push(`not allowed: ${e.violatedDirective} ${e.blockedURI}`));
for (const level of ["error", "warn"]) {
  const plain = console[level];
  console[level] = (...words) => (problems.push(`console.${level}: ${words.join(" ")}`), plain.apply(console, words));
}
