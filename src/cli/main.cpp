// The tool `tenon`.
int main() { return 0; }
