//! Scripts that answer as Python, pip and uv do.

/// Answers what the managed environment asks of python3 and pip, and notes what was installed.
pub(crate) const STAND_IN: &str = r#"#!/bin/sh
case "$*" in
    *importlib.metadata*)
        echo "what sitecustomize prints"
        printf '{"markers": {"python_version": "3.99", "python_full_version": "3.99.1"}, "packages": {'
        separator=
        for package in ${HAS-torch=2.15.0 numpy=2.4.1}; do
            printf '%s"%s": {"version": "%s", "requires": [], "direct": null, "place": "/s"}' "$separator" "${package%=*}" "${package#*=}"
            separator=", "
        done
        echo "}}"
        echo asked >> "$LOG.asked" ;;
    *version_info*) echo 3.99 ;;
    *find_spec*) echo ;;
    *torch.distributed.run*) echo "torchrun of $0" >> "$LOG" ;;
    *purelib*) mkdir -p "$HOME/site"; echo "$HOME/site" ;;
    *"-m venv"*)
        for directory; do :; done
        mkdir -p "$directory/bin"
        cp "$0" "$directory/bin/python"
        echo venv >> "$LOG" ;;
    *"config list"*) echo "global.index-url='https://mine/simple'" ;;
    *--target*)
        if [ -z "${WHEEL-}" ]; then echo "no wheel of uv" >&2; exit 1; fi
        for word; do target=$previous; previous=$word; done
        mkdir -p "$target/bin"
        cp "$WHEEL" "$target/bin/uv"
        echo "fetched uv" >> "$LOG" ;;
    *compileall*)
        for directory; do :; done
        echo "compiles $(basename "$directory")" >> "$LOG" ;;
    *"--dry-run"*) echo '{"install": [{"metadata": {"requires_dist": ["filelock", "nvidia-nccl-cu13==2.30.7"]}}]}' ;;
    *install*)
        if [ -n "${SAYS-}" ]; then echo "$SAYS" >&2; exit 1; fi
        if [ -n "${NO_NETWORK-}" ]; then echo "no route to the index" >&2; exit 1; fi
        if [ -n "${STAY-}" ]; then echo installing > "$STAY"; exec sleep 1000; fi
        if [ -n "${CRASH-}" ]; then kill -9 $PPID; exit 1; fi
        for word; do file=$word; done
        if grep -q torch== "$file"; then
            mkdir -p "$HOME/site/torch-2.9.1.dist-info"
            printf 'Name: torch\nRequires-Dist: filelock\nRequires-Dist: nvidia-nccl-cu13==2.30.7\nRequires-Dist: triton~=3.5.1\n\nText.\n' \
                > "$HOME/site/torch-2.9.1.dist-info/METADATA"
        fi
        echo "$*${LD_PRELOAD:+ under $LD_PRELOAD}" |
            sed "s/.*--progress-bar=off/install/; s|-r [^ ]*|$(paste -s -d ' ' "$file")|" >> "$LOG" ;;
esac
"#;

/// Answers what the managed environment asks of uv. What it installs is a link to what it keeps.
pub(super) const UV: &str = r#"#!/bin/sh
case "$*" in
    --version) echo "uv 0.9.0" ;;
    venv*)
        mkdir -p "$3/bin"
        cp "$5" "$3/bin/python" ;;
    *--help) echo "  --excludes FILE" ;;
    *"pip install"*)
        for word; do
            if [ "$previous" = --excludes ]; then excluded=$(grep -c -e nccl -e triton "$word"); fi
            previous=$word file=$word
        done
        if grep -q torch== "$file"; then
            mkdir -p "$UV_CACHE_DIR" "$HOME/site/torch-2.9.1.dist-info"
            printf 'Name: torch\nRequires-Dist: filelock\nRequires-Dist: nvidia-nccl-cu13==2.30.7\n' > "$UV_CACHE_DIR/METADATA"
            ln "$UV_CACHE_DIR/METADATA" "$HOME/site/torch-2.9.1.dist-info/METADATA"
        fi
        echo "$* from $UV_DEFAULT_INDEX, compiled: $UV_COMPILE_BYTECODE" |
            sed "s/.*bin.python/uv installs/; s|--excludes [^ ]*|without $excluded|; s|-r [^ ]*|$(paste -s -d ' ' "$file")|" >> "$LOG" ;;
esac
"#;
