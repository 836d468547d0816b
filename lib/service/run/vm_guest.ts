import { BUNDLE_MAX, type Guest, type GuestOutput } from "../../repo/mod.ts";
import { byProcess } from "../record/host_record.ts";
import type { FileRequest } from "../../session/mod.ts";
import type { Vm } from "../vm/vm.ts";
import { execBuffered } from "./exec.ts";
import { VmFiles } from "./transfer.ts";

/** The rules are asked about a look, and it is on record where they do not let it happen as it is. */
const LOOKING = {
  decide: (vm: Vm, file: FileRequest) => byProcess.decide(vm, { ...file, look: true }),
};

/** A VM as lib/repo needs it, from within the service. */
export class VmGuest implements Guest {
  readonly workspace = "/workspace";
  readonly name: string;
  protected readonly vm: Vm;
  readonly #files: VmFiles;

  readonly #isLook: boolean;

  /** @param options.isLook it is only read, for a person: no event of the VM */
  constructor(vm: Vm, { isLook = false } = {}) {
    this.#isLook = isLook;
    this.name = vm.record.name;
    this.vm = vm;
    this.#files = new VmFiles({ ready: () => Promise.resolve(), records: isLook ? LOOKING : byProcess }, vm, {
      client: "sbx-service",
    });
  }

  async run(command: string[], timeout_secs: number): Promise<GuestOutput> {
    // An image may name another user, and a folder that is not there yet.
    const as = { user: "root", cwd: "/" };
    const { exit_code, stdout, stderr } = await execBuffered(this.vm, {
      command,
      timeout_secs,
      ...as,
      ...this.#isLook && { look: true },
    });
    return { code: exit_code, stdout, stderr };
  }

  async upload(path: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    await this.#files.write(path, ReadableStream.from(bytes), 0o600);
  }

  async download(path: string): Promise<{ body: AsyncIterable<Uint8Array> }> {
    // All of it is hashed first: a guest may make a file that takes years to read.
    return await this.#files.open(path, BUNDLE_MAX);
  }
}
