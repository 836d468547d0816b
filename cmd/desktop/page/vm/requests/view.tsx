import type { VmSummary } from "../../../api/routes.ts";
import { HttpExchange } from "../../../part/http.tsx";
import { FamilyView } from "../timeline/family.tsx";

/** Requests of a VM with their headers and bodies, in both directions. */
export function RequestsView({ vm }: { vm: VmSummary }) {
  return (
    <FamilyView
      vm={vm}
      family="http"
      draw={(event) => event.http && <HttpExchange http={event.http} />}
    />
  );
}
