#!/usr/bin/env python3
"""README's first steps as a new user takes them, on a bare Debian 12: with the packages in FOLDER (./dev package, ./dev wheel) installed as it says, its
programs in C++, C and Python run; says how long each step took. first_steps.py [FOLDER]
Needs root and debootstrap. Status 77: it was passed over, as one of these, a package or the network is missing."""
import glob, os, shutil, subprocess, sys, tempfile, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "docs"))
from pages import ROOT, Page

CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


def pass_over(why):
    print(f"SKIPPED first_steps: {why}")
    sys.exit(77)


def bare_system(system):
    done = subprocess.run(["debootstrap", "--variant=minbase", "bookworm", system], capture_output=True, text=True)
    if done.returncode:
        pass_over("debootstrap cannot reach Debian's packages: " + done.stdout.strip().split("\n")[-1])
    shutil.copy("/etc/resolv.conf", f"{system}/etc/resolv.conf")
    os.makedirs(f"{system}{os.path.dirname(CERTIFICATES)}", exist_ok=True)
    if os.path.exists(CERTIFICATES):  # those of the machine, as its network may need others than Debian's
        shutil.copy(CERTIFICATES, f"{system}/root/certificates")
    for kind, target in (("proc", "proc"), ("devtmpfs", "dev")):
        subprocess.run(["mount", "-t", kind, kind, f"{system}/{target}"], check=True)


def steps():
    """Names and commands, from README.md: installing as it says (as root, without questions), then its first blocks in each language."""
    blocks = Page("README.md").blocks
    install = next(b.text for b in blocks if b.language == "sh" and "apt install" in b.text)
    install = install.replace("sudo ", "").replace("apt install", "apt-get install -y -qq --no-install-recommends").splitlines()
    source = {language: next(b.text for b in blocks if b.language == language) for language in ("cpp", "c", "python")}
    run = next(b.text for b in blocks if b.text.startswith("tenon run"))
    yield "lists of packages", "apt-get update -qq"
    yield "tenon, g++, pkg-config", install[0]
    yield "the tool runs a program", run
    yield "C++", f"cat >main.cpp <<'END_OF_FILE'\n{source['cpp']}END_OF_FILE\ng++ -std=c++20 main.cpp $(pkg-config --cflags --libs tenon) && ./a.out"
    yield "C", f"cat >main.c <<'END_OF_FILE'\n{source['c']}END_OF_FILE\ncc -std=c99 main.c -ltenon && ./a.out"
    yield "the Python package and numpy", install[1]
    yield "Python", f"cat >try.py <<'END_OF_FILE'\n{source['python']}END_OF_FILE\n.venv/bin/python try.py"


def main():
    packages = os.path.realpath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "dist"))
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        pass_over("it needs root and debootstrap")
    if not glob.glob(f"{packages}/*.deb") or not glob.glob(f"{packages}/*.whl"):
        pass_over(f"{packages} has no .deb or no wheel")
    system = tempfile.mkdtemp(prefix="tenon-first-steps-", dir="/var/tmp")
    try:
        bare_system(system)
        checkout = f"{system}/root/tenon"
        shutil.copytree(os.path.join(ROOT, "tests/fixtures/programs"), f"{checkout}/tests/fixtures/programs")
        shutil.copytree(packages, f"{checkout}/dist")
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
        if os.path.exists(f"{system}/root/certificates"):
            env["PIP_CERT"] = "/root/certificates"
        start = time.time()
        for name, command in steps():
            done = subprocess.run(["chroot", system, "bash", "-euo", "pipefail", "-c", f"cd /root/tenon\n{command}"], env=env, capture_output=True, text=True)
            print(f"{time.time() - start:5.0f} s  {name}", flush=True)
            if done.returncode:
                print(command, done.stdout, done.stderr, sep="\n")
                return 1
        return 0
    finally:
        for target in ("dev", "proc"):
            subprocess.run(["umount", "-R", f"{system}/{target}"], stderr=subprocess.DEVNULL)
        if not any(os.path.ismount(f"{system}/{target}") for target in ("dev", "proc")):
            shutil.rmtree(system, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
