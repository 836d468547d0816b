import { assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { type Devcontainer, planDevcontainer } from "../../../../lib/publish/devcontainer/mod.ts";

interface Given extends Partial<Omit<Devcontainer, "properties">> {
  properties?: Record<string, unknown>;
  /** entries of the image's label, or its text */
  label?: unknown;
  user?: string;
  to?: string;
}

function plan({ properties = {}, label, user, to, ...file }: Given) {
  const devcontainer = typeof label === "string" || label === undefined ? label : JSON.stringify(label);
  return planDevcontainer({ path: "devcontainer.json", leftOut: [], properties, ...file }, {
    dir: "/home/me/my app",
    image: { env: { PATH: "/bin", LANG: "C" }, ...user && { user }, ...devcontainer && { devcontainer } },
    to,
  });
}

Deno.test("properties of image, features and file are merged as the specification says", () => {
  const { settings, env, size, leftOut } = plan({
    label: [
      {
        remoteUser: "vscode",
        containerEnv: { A: "1", B: "1" },
        forwardPorts: [3000, "localhost:3001"],
        hostRequirements: { cpus: 4, memory: "1gb" },
        onCreateCommand: "from the image",
        mounts: [{ source: "a", target: "/data", type: "volume" }],
      },
      { id: "ghcr.io/x/docker:1", onCreateCommand: ["a", "b"], privileged: true, entrypoint: "/init.sh" },
    ],
    properties: {
      containerEnv: { B: "2" },
      onCreateCommand: { one: "x", two: ["y", "z"] },
      postStartCommand: "later",
      forwardPorts: [3001, "db:5432"],
      portsAttributes: { "3000-3010": { label: "web" } },
      hostRequirements: { cpus: 2, memory: "2gb", storage: "30gb" },
      mounts: ["type=volume,source=b,target=/data", "type=tmpfs,target=/scratch"],
    },
  });
  assertEquals(JSON.parse(JSON.stringify(settings)), {
    user: "vscode",
    folder: "/workspaces/my_app",
    volumes: ["/data"],
    commands: [
      { name: "onCreateCommand", origin: "the image", run: [{ command: "from the image" }] },
      { name: "onCreateCommand", origin: "the feature ghcr.io/x/docker:1", run: [{ command: ["a", "b"] }] },
      {
        name: "onCreateCommand",
        origin: "devcontainer.json",
        run: [{ name: "one", command: "x" }, { name: "two", command: ["y", "z"] }],
      },
      { name: "postStartCommand", origin: "devcontainer.json", run: [{ command: "later" }] },
    ],
    ports: [{ port: 3000, label: "web" }, { port: 3001, label: "web" }],
  });
  assertEquals(env, { A: "1", B: "2" });
  assertEquals(size, { cpus: 4, ram_mb: 2048, disk_gb: 30 });
  assertEquals(leftOut, [
    "privileged of the feature ghcr.io/x/docker:1",
    "entrypoint of the feature ghcr.io/x/docker:1",
    "mounts: tmpfs at /scratch",
    "forwardPorts db:5432: only ports of the VM itself",
  ]);
});

Deno.test("variables of the VM are replaced; values of this host, and what no program understands, are left out", () => {
  const { settings, env, leftOut } = plan({
    properties: {
      containerEnv: {
        NAME: "${localWorkspaceFolderBasename}",
        SECRET: "${localEnv:AWS_SECRET_ACCESS_KEY}",
        OTHER: "${secret}",
        LD_PRELOAD: "/x.so",
      },
      remoteEnv: {
        PATH: "${containerEnv:PATH}:${containerWorkspaceFolder}/bin",
        WORD: "${containerEnv:NAME} ${containerEnv:NONE:default}${containerEnv:NONE}",
        UNSET: null,
        HERE: "${localWorkspaceFolder}",
      },
      postCreateCommand: "echo ${HOME} ${containerWorkspaceFolderBasename}",
      postStartCommand: { kept: "a", lost: ["echo", "${env:HOME}"] },
      mounts: [
        { target: "/data/${localWorkspaceFolderBasename}" },
        "source=${localEnv:HOME},target=/h,type=bind",
      ],
    },
  });
  assertEquals(env, {
    NAME: "my app",
    PATH: "/usr/lib/sbx/commands:/bin:/workspaces/my_app/bin",
    WORD: "my app default",
  });
  assertEquals(settings.commands?.map(({ run }) => run), [
    [{ command: "echo ${HOME} my_app" }],
    [{ name: "kept", command: "a" }],
  ]);
  assertEquals(settings.volumes, ["/data/my app"]);
  assertEquals(leftOut, [
    "containerEnv.SECRET",
    "containerEnv.OTHER",
    "remoteEnv.UNSET",
    "remoteEnv.HERE",
    "mounts: no folder of this host",
    "postStartCommand.lost with a value of this host",
    "the variable LD_PRELOAD",
  ]);
});

Deno.test("the user is the remote one, the container's, or the image's", () => {
  const label = [{ containerUser: "a" }];
  assertEquals(plan({ label, user: "c", properties: { remoteUser: "b" } }).settings.user, "b");
  assertEquals(plan({ label, user: "c" }).settings.user, "a");
  assertEquals(plan({ user: "c:d" }).settings.user, "c:d");
  assertEquals(plan({}).settings.user, undefined);
});

Deno.test("the folder of the files, and the one to work in", () => {
  const folders = (given: Given) => {
    const { place, settings: { folder }, leftOut } = plan(given);
    return [place, folder, ...leftOut];
  };
  const mount = (target: string) => `source=\${localWorkspaceFolder},target=${target},type=bind`;
  assertEquals(folders({ workspaceFolder: "/src/" }), ["/src", "/src"]);
  assertEquals(
    folders({ workspaceMount: mount("/src"), workspaceFolder: "/src/${localWorkspaceFolderBasename}/a" }),
    ["/src", "/src/my app/a"],
  );
  assertEquals(folders({ workspaceMount: mount("/src"), workspaceFolder: "/other" }), [
    "/src",
    "/src",
    "workspaceFolder, which is outside of the mounted folder",
  ]);
  assertEquals(folders({ workspaceFolder: "/src", to: "/mine" }), ["/mine", "/mine"]);
  // sbx's own files are there.
  assertEquals(folders({ workspaceMount: mount("/workspace"), workspaceFolder: "/workspace/web" }), [
    "/workspaces/my_app",
    "/workspaces/my_app/web",
    "workspaceFolder /workspace: the files are in /workspaces/my_app",
  ]);
});

Deno.test("a label that is damaged is left out, as far as it is", () => {
  const { settings, leftOut } = plan({
    label: [1, { remoteUser: ["x"], forwardPorts: [80], onCreateCommand: "" }, null],
  });
  assertEquals([settings.user, settings.ports, settings.commands], [undefined, [{ port: 80 }], undefined]);
  assertEquals(leftOut, ["remoteUser of the image"]);
  assertEquals(plan({ label: "{" }).leftOut, ["the label devcontainer.metadata of the image"]);
  assertEquals(plan({ label: { remoteUser: "one" } }).settings.user, "one");
});

Deno.test("names that a person sees stay on one line, whatever an image or a file calls them", () => {
  const forged = "x\nsbx: the VM is safe\x1b[31m";
  const { settings, leftOut } = plan({
    label: [{ id: forged, onCreateCommand: { [forged]: "a" }, forwardPorts: [80], privileged: true }],
    properties: {
      forwardPorts: [forged],
      portsAttributes: { "80": { label: forged } },
      remoteEnv: { A: null },
      mounts: [`type=${forged},target=/x`],
    },
    leftOut: [forged],
  });
  const shown = [...leftOut, ...settings.commands!.flatMap(({ origin, run }) => [origin, run[0].name!])];
  shown.push(settings.ports![0].label!);
  assertEquals(shown.filter((each) => each.includes("\n") || each.includes("\x1b")), []);
  assertEquals(shown.filter((each) => each.includes("the VM is safe")).length, 7);
});

Deno.test("a user or a folder that is none, and too much of anything, is refused", () => {
  const wrong: Given[] = [
    { properties: { remoteUser: "-R" } },
    { properties: { remoteUser: "a b" } },
    { workspaceFolder: "src" },
    { workspaceFolder: "/src/../.." },
    { workspaceFolder: "${localEnv:HOME}/x" },
    { properties: { postCreateCommand: "x".repeat(65 * 1024) } },
    { properties: { forwardPorts: Array.from({ length: 51 }, (_, at) => at + 1) } },
  ];
  for (const given of wrong) {
    assertEquals(
      assertThrows(() => plan(given), SbxError).code,
      "devcontainer.invalid",
      JSON.stringify(given),
    );
  }
});
