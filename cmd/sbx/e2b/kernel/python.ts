/**
 * Program of the guest that runs cells of Python and of bash and keeps their state: one line of JSON for each
 * cell in its standard input, messages of E2B's code interpreter on its standard output.
 */

/** Reads its text as the first line of standard input: as an argument it would be in the record each time. */
export const PYTHON_STARTER =
  `import json,os;f=os.fdopen(os.dup(0),encoding="utf-8");exec(compile(json.loads(f.readline()),"<sbx>","exec"),{"requests":f})`;

export const PYTHON_PROGRAM = String.raw`
import ast, asyncio, base64, builtins, codecs, inspect, json, linecache, os, re, select, signal, subprocess
import sys, threading, traceback, types

os.environ.setdefault("MPLBACKEND", "agg")
out = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
PIPE_BYTES = 65536
MIMES = {
    "text/plain": "text", "text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg",
    "image/png": "png", "image/jpeg": "jpeg", "application/pdf": "pdf", "text/latex": "latex",
    "application/json": "json", "application/javascript": "javascript", "e2b/data": "data", "e2b/chart": "chart",
}
METHODS = {
    "_repr_html_": "html", "_repr_markdown_": "markdown", "_repr_svg_": "svg", "_repr_png_": "png",
    "_repr_jpeg_": "jpeg", "_repr_pdf_": "pdf", "_repr_latex_": "latex", "_repr_json_": "json",
    "_repr_javascript_": "javascript",
}

class State:
    running = False
    sending = False
    interrupted = False

def on_interrupt(*_):
    # Inside of a message, the interrupt waits for its end.
    if State.sending:
        State.interrupted = True
    elif State.running:
        raise KeyboardInterrupt

signal.signal(signal.SIGINT, on_interrupt)
writing = threading.Lock()

def send(kind, **fields):
    line = json.dumps({"type": kind, **fields}, default=str) + "\n"
    is_main = threading.current_thread() is threading.main_thread()
    if is_main:
        State.sending = True
    with writing:
        out.write(line)
        out.flush()
    if is_main:
        State.sending = False
        if State.interrupted and State.running:
            State.interrupted = False
            raise KeyboardInterrupt

pipes = {}
for name, descriptor in (("stdout", 1), ("stderr", 2)):
    reader, writer = os.pipe()
    os.dup2(writer, descriptor)
    os.close(writer)
    os.set_blocking(reader, False)
    pipes[reader] = (name, codecs.getincrementaldecoder("utf-8")("replace"))
reading = threading.Lock()
sys.stdout, sys.stderr = [
    open(descriptor, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False) for descriptor in (1, 2)
]

def drain():
    with reading:
        for pipe, (name, decoder) in pipes.items():
            left = PIPE_BYTES
            while left > 0:
                try:
                    data = os.read(pipe, left)
                except BlockingIOError:
                    break
                left -= len(data)
                text = decoder.decode(data)
                if text:
                    send(name, text=text)

def follow():
    while True:
        select.select(list(pipes), [], [])
        drain()

threading.Thread(target=follow, daemon=True).start()

def settle():
    # Output that was written before is shown before.
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    drain()

def plain(value):
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value

def formats(value):
    found = {}
    if not isinstance(value, type):
        bundle = getattr(value, "_repr_mimebundle_", None)
        if bundle is not None:
            data = bundle(include=None, exclude=None)
            for mime, content in (data[0] if isinstance(data, tuple) else data or {}).items():
                name = MIMES.get(mime, mime)
                if name in METHODS.values() or "/" in name or name in ("text", "data", "chart"):
                    found[name] = plain(content)
        for method, name in METHODS.items():
            if name in found or not hasattr(value, method):
                continue
            content = getattr(value, method)()
            if isinstance(content, tuple):
                content = content[0]
            if content is not None:
                found[name] = plain(content)
        if type(value).__name__ == "DataFrame" and hasattr(value, "to_json"):
            columns = json.loads(value.to_json(orient="columns", date_format="iso"))
            found["data"] = {name: list(rows.values()) for name, rows in columns.items()}
    if "text" not in found:
        text = repr(value)
        # As E2B shows strings: without quotes.
        found["text"] = text[1:-1] if text[:1] == "'" and text[-1:] == "'" and len(text) > 1 else text
    return found

def show(value, is_main):
    settle()
    send("result", is_main_result=is_main, **formats(value))

def display(*values, **_):
    for value in values:
        show(value, False)

def shell(command):
    settle()
    cells["_exit_code"] = subprocess.run(["/bin/sh", "-c", command]).returncode

module = types.ModuleType("__main__")
cells = module.__dict__
sys.modules["__main__"] = module
builtins.display = display
cells["__sbx_shell__"] = shell
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)

class Figures:
    """Figures of matplotlib that a cell leaves open."""

    def show(self):
        plots = sys.modules.get("matplotlib.pyplot")
        if plots is None:
            return
        import io
        for number in plots.get_fignums():
            image = io.BytesIO()
            figure = plots.figure(number)
            figure.savefig(image, format="png", bbox_inches="tight")
            settle()
            send("result", is_main_result=False, text=repr(figure), png=plain(image.getvalue()))
        plots.close("all")

def parse(code, name):
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        return compile(code, name, "exec", flags)
    except SyntaxError:
        # Lines of IPython: !command and %pip.
        changed = re.sub(
            r"^([ \t]*)(?:!|%(?=pip\b))(.*)$",
            lambda found: found[1] + "__sbx_shell__(" + repr(
                found[2] if "%" not in found[0][:len(found[1]) + 1] else sys.executable + " -m " + found[2]
            ) + ")",
            code,
            flags=re.M,
        )
        if changed == code:
            raise
        return compile(changed, name, "exec", flags)

def evaluate(node, name, mode):
    compiled = compile(node, name, mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    value = eval(compiled, cells)
    return loop.run_until_complete(value) if compiled.co_flags & inspect.CO_COROUTINE else value

def run_python(code, count):
    name = "<cell %d>" % count
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    tree = parse(code, name)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not code.rstrip().endswith(";"):
        last = tree.body.pop()
    evaluate(tree, name, "exec")
    if last is not None:
        value = evaluate(ast.Expression(last.value), name, "eval")
        if value is not None:
            cells["_"] = value
            show(value, True)
    Figures().show()

class Failure(Exception):
    """An error that is no exception of Python."""

class Bash:
    process = None

    def start(self):
        commands, self.commands = os.pipe()
        self.codes, codes = os.pipe()
        script = "trap : INT; while IFS= read -r -u %d sbx_cell; do eval \"$(printf %%s \"$sbx_cell\" | base64 -d)\" %d<&- %d>&-; echo $? >&%d; done" % (commands, commands, codes, codes)
        self.process = subprocess.Popen(["bash", "-c", script], pass_fds=(commands, codes))
        os.close(commands)
        os.close(codes)

    def run(self, code, env):
        if self.process is None:
            self.start()
        settle()
        names = [name for name in env if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)]
        quoted = {name: "'" + env[name].replace("'", "'\\''") + "'" for name in names}
        code = "".join("export %s=%s\n" % pair for pair in quoted.items()) + code + "\nsbx_code=$?\n" + "".join(
            "unset %s\n" % name for name in names
        ) + "(exit $sbx_code)"
        os.write(self.commands, base64.b64encode(code.encode()) + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            data = os.read(self.codes, 16)
            if not data:
                code = self.process.wait()
                os.close(self.commands)
                os.close(self.codes)
                self.process = None
                raise Failure("bash ended with exit code %d" % code)
            answer += data
        if answer != b"0\n":
            raise Failure("exit code " + answer.decode().strip())

bash = Bash()

def report(error):
    settle()
    if isinstance(error, Failure):
        return send("error", name="ExitCode", value=str(error), traceback=str(error))
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == "<sbx>":
        trace = trace.tb_next
    lines = traceback.format_exception(type(error), error, trace)
    send("error", name=type(error).__name__, value=str(error), traceback="".join(lines))

def run(request, count):
    env = request.get("env") or {}
    before = {name: os.environ.get(name) for name in env}
    State.interrupted = False
    # Bash and its programs have the interrupt themselves, and answer for the cell.
    State.running = request["language"] != "bash"
    try:
        if request["language"] == "bash":
            bash.run(request["code"], env)
        else:
            os.environ.update(env)
            run_python(request["code"], count)
        State.running = False
    except BaseException as error:
        State.running = False
        report(error)
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
    settle()
    send("number_of_executions", execution_count=count)
    send("end_of_execution")

send("ready", group=os.getpgrp())
count = 0
for line in requests:
    count += 1
    run(json.loads(line), count)
`;
