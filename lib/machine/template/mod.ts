/** Templates: booted guests that wait for a VM to become, written down once and started many times. */
export { type TemplateMachine, writeTemplate } from "./make.ts";
export { templateId, type TemplateKey } from "./record.ts";
export { type Template, TemplateStore } from "./store.ts";
