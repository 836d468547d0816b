/**
 * A provider of ComputeSDK (`computesdk`, `@computesdk/provider`) whose sandboxes are VMs.
 *
 *     const provider = sbxProvider({ profile: "code" });
 *     const sandbox = await provider.sandbox.create();
 *     const { stdout } = await sandbox.runCommand("node --version");
 *     await sandbox.destroy();
 */
import { type Client, Sandbox, SbxError } from "@sbx/sdk";
import { defineProvider, type Provider } from "@computesdk/provider";

/** VMs of the provider. */
export interface SbxConfig {
  /** id of a profile; default code */
  profile?: string;
  /** default: the sbx of this machine */
  client?: Client;
}

const named = (vm: Sandbox) => ({ sandbox: vm, sandboxId: vm.id });

/** A command in the background has no result of its own. */
const LATER = { stdout: "", stderr: "", exitCode: 0, durationMs: 0 };

export const sbxProvider: (config: SbxConfig) => Provider<Sandbox> = defineProvider<Sandbox, SbxConfig>({
  name: "sbx",
  methods: {
    sandbox: {
      async create({ profile, client }, options = {}) {
        const { name, envs, templateId, signal } = options;
        // Persistent: it lives until it is destroyed, as this library expects.
        const made = { name, profile, image: templateId, env: envs, persistent: true, client, signal };
        return named(await Sandbox.create(made));
      },
      async getById({ client }, id) {
        try {
          return named(await Sandbox.get(id, { client }));
        } catch (error) {
          if (error instanceof SbxError && error.code === "vm.not_found") return null;
          throw error;
        }
      },
      async list({ client }) {
        const vms = await Sandbox.list({ client });
        return await Promise.all(vms.map(async ({ id }) => named(await Sandbox.get(id, { client }))));
      },
      async destroy({ client }, id) {
        await (await Sandbox.get(id, { client })).delete({ force: true });
      },
      async runCommand(vm, command, { cwd, env, timeout, background } = {}) {
        const options = { cwd, env, ...timeout !== undefined && { timeout: timeout / 1000 } };
        if (background) {
          await vm.exec(
            ["sh", "-c", 'setsid sh -c "$1" >/dev/null 2>&1 </dev/null &', "sh", command],
            options,
          );
          return LATER;
        }
        return await vm.exec(command, options);
      },
      async streamCommand(vm, command, { cwd, env, timeout, onStdout, onStderr }) {
        const [stdout, stderr] = [new TextDecoder(), new TextDecoder()];
        return await vm.exec(command, {
          cwd,
          env,
          ...timeout !== undefined && { timeout: timeout / 1000 },
          onStdout: (bytes) => onStdout?.(stdout.decode(bytes, { stream: true })),
          onStderr: (bytes) => onStderr?.(stderr.decode(bytes, { stream: true })),
        });
      },
      async getInfo(vm) {
        const { status, created_at } = await vm.info();
        return {
          id: vm.id,
          provider: "sbx",
          status: status === "Running" || status === "Booting"
            ? "running"
            : status === "Defunct"
            ? "error"
            : "stopped",
          createdAt: new Date(created_at),
          // A VM has none.
          timeout: 0,
        };
      },
      async getUrl(vm, { port, protocol = "http" }) {
        const { host_port } = await vm.ports.open(port);
        return `${protocol}://127.0.0.1:${host_port}`;
      },
      filesystem: {
        readFile: (vm, path) => vm.files.readText(path),
        async writeFile(vm, path, content) {
          await vm.files.write(path, content);
        },
        async mkdir(vm, path) {
          await vm.exec(["mkdir", "-p", "--", path], { check: true });
        },
        async readdir(vm, path) {
          const entries = await vm.files.list(path);
          return entries.map(({ path, type, size, modified_unix_ms }) => ({
            name: path.slice(path.lastIndexOf("/") + 1),
            type: type === "directory" ? "directory" as const : "file" as const,
            size,
            modified: new Date(modified_unix_ms),
          }));
        },
        exists: async (vm, path) => (await vm.exec(["test", "-e", path])).exitCode === 0,
        async remove(vm, path) {
          await vm.exec(["rm", "-rf", "--", path], { check: true });
        },
      },
    },
  },
});
