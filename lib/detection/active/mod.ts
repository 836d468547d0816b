/** Active detections: packs loaded by pins, overlays, and their views. Loads zod and the YAML parser. */
export { PLACEHOLDERS_FILE, type RuleSource } from "../rule/load.ts";
export { exportRoutes, type LoadedPack, type LoadedRules, loadPack, loadPinned, loadRules } from "./load.ts";
export { type OffRule, OffRules } from "./off.ts";
export {
  type DetectionScope,
  type DetectionView,
  irOfInput,
  irOfRule,
  isRuleInput,
  isSigmaSource,
  type OffById,
  type Overlay,
  type OverlayInput,
  OverlayInputSchema,
  type OverlayRecorder,
  OVERLAYS_MAX,
  OverlayStore,
  overlayView,
  packViews,
  RUNTIME_PACK,
} from "./overlay.ts";
export { type RuleInput, RuleInputSchema } from "./schema.ts";
