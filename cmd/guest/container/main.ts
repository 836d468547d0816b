/**
 * sbx-container: makes containers trust the host's CA, just before an OCI runtime starts them.
 *
 * lib/publish/image/docker.ts runs it, for programs that join a container too. It changes the runtime's files
 * and mounts, and never a layer of an image.
 *
 * Usage: sbx-container create BUNDLE | exec PROCESS
 */
import { trustContainer, trustProcess } from "./trust.ts";

const [verb, path] = Deno.args;
if (verb === "create") await trustContainer(path);
else if (verb === "exec") trustProcess(path);
