/** Active detections: packs loaded by pins, overlays, and their views. Loads zod and the YAML parser. */
export { exportRoutes, type LoadedPack, loadPack, loadPinned } from "./load.ts";
export {
  irOfInput,
  irOfRule,
  isRuleInput,
  type Overlay,
  type OverlayInput,
  OverlayInputSchema,
  type OverlayRecorder,
  OVERLAYS_MAX,
  OverlayStore,
  RUNTIME_PACK,
} from "./overlay.ts";
export { type RuleInput, RuleInputSchema } from "./schema.ts";
export { type DetectionScope, type DetectionView, overlayView, packViews } from "./view.ts";
