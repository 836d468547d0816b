/** An OCI image that this home gets from a registry or this machine, under corp's rules, with progress. */
import type { Arch } from "../../../lib/base/arch/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { note } from "../../../lib/base/print/mod.ts";
import type { MadeEnvironment } from "../../../lib/publish/environment/mod.ts";

/**
 * Pulls an image with a progress bar, unless this home has it. Interrupts end it
 * without a trace but whole layers.
 *
 * @param refresh asks the registry even if this home has it
 */
export async function pullImage(image: string, arch: Arch, refresh = false): Promise<MadeEnvironment> {
  const [
    environment,
    { parseReference },
    { Progress },
    { useNetworkOf },
    { requireCorpImage, signersOf },
    { withInterrupts },
  ] = await Promise.all([
    import("../../../lib/publish/environment/mod.ts"),
    import("../../../lib/release/environment/mod.ts"),
    import("../../../lib/base/progress/mod.ts"),
    import("../../../lib/home/mod.ts"),
    import("../../../lib/config/corp/mod.ts"),
    import("../../../lib/publish/image/mod.ts"),
  ]);
  const place = home();
  const reference = parseReference(image);
  const { state } = await useNetworkOf(place);
  requireCorpImage(state, { reference: reference.canonical });
  const made = await withInterrupts(async (signal) => {
    using progress = new Progress(environment.ENVIRONMENT_STAGES);
    return await environment.makeEnvironment(reference, {
      home: place,
      arch,
      progress,
      signal,
      refresh,
      signers: signersOf(state, reference.canonical),
      onWait: () => note(`waiting for another sbx, which makes the same image`),
    });
  });
  requireCorpImage(state, { ...made.environment, reference: reference.canonical });
  return made;
}
