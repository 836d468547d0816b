/** Templates: booted guests that wait for a VM to become, written down once and started many times. */
export { type TemplateMachine, writeTemplate } from "./store.ts";
export { templateId, type TemplateKey } from "./store.ts";
export { type Template, TemplateStore } from "./store.ts";
