/** `devcontainer.json` (containers.dev): the image that it names or builds, and the settings of its VM */
export { type Devcontainer, findDevcontainer, readDevcontainer } from "./file.ts";
export { type DevcontainerPlan, planDevcontainer } from "./plan.ts";
