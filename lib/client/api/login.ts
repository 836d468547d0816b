/**
 * Routes of subscriptions' logins on the host (docs/design/contracts/09-credentials.md §9, "Subscriptions").
 */
import { createRoute, z } from "@hono/zod-openapi";
import { answers, body } from "./common.ts";

const Label = z.string().min(1).max(128).regex(/^[^\p{Cc}]*$/u, "must be one line");

export const LoginView = z.object({
  login: z.string().describe("word of sbx login"),
  title: z.string(),
  provider: z.string(),
  label: z.string().optional(),
  state: z.enum(["logged_out", "logged_in", "over"]).describe("over: a person has to log in again"),
  ref: z.string().optional().describe("ref that VMs have"),
  account: z.string().optional(),
  scope: z.string().optional(),
  expires_at: z.iso.datetime().optional().describe("end of the token; the host renews it"),
  problem: z.string().optional().describe("why it was not renewed"),
}).openapi("Login");
export type LoginView = z.infer<typeof LoginView>;

export const LoginOffer = z.object({
  ref: z.string().describe("ref of the token that renews it"),
  login: z.string().describe("word of sbx login"),
  provider: z.string(),
  account: z.string().optional().describe("as the provider named it to the VM"),
  vm: z.string().describe("name of the VM, or its id once it is deleted"),
  made_at: z.iso.datetime(),
}).openapi("LoginOffer");
export type LoginOffer = z.infer<typeof LoginOffer>;

export const LoginList = z.object({
  logins: z.array(LoginView),
  offers: z.array(LoginOffer).describe("logins that agents made in VMs"),
}).openapi("LoginList");
export type LoginList = z.infer<typeof LoginList>;

const Way = z.enum(["browser", "paste", "device"]);

export const LoginBegin = z.strictObject({
  label: Label.optional(),
  way: Way.optional().describe("default: the first that the provider has"),
}).openapi("LoginBegin");
export type LoginBegin = z.infer<typeof LoginBegin>;

export const LoginWaiting = z.object({
  way: Way,
  ways: z.array(Way).describe("all that the provider has"),
  url: z.string().describe("to be opened in a browser; a secret until the login ends"),
  user_code: z.string().optional().describe("to be typed there"),
  attempt: z.string().describe("names this attempt: a later one of the same login takes its place"),
}).openapi("LoginWaiting");
export type LoginWaiting = z.infer<typeof LoginWaiting>;

export const LoginCode = z.strictObject({
  label: Label.optional(),
  code: z.string().max(4096).describe("as the provider's page shows it"),
  attempt: z.string().max(64).optional(),
}).openapi("LoginCode");

export const LoginKeep = z.strictObject({
  ref: z.string().describe("ref of an offer"),
  label: Label.optional(),
}).openapi("LoginKeep");

export const LoginState = z.object({
  waiting: z.boolean(),
  login: LoginView.optional(),
  running: z.array(z.object({
    name: z.string(),
    problem: z.string().optional().describe("why it has them at its next start only"),
  })).optional().describe("running VMs that got the agent's files"),
}).openapi("LoginState");
export type LoginState = z.infer<typeof LoginState>;

const params = z.object({ id: z.string().openapi({ param: { name: "id", in: "path" } }) });
const LoginQuery = z.object({
  label: Label.optional(),
  attempt: z.string().max(64).optional().describe("fails when a later attempt took its place"),
});
const tags = ["login"];

export const loginRoutes = {
  list: createRoute({
    method: "get",
    path: "/logins/list",
    tags,
    responses: answers("subscriptions that sbx can log in to, with their logins", LoginList),
  }),
  begin: createRoute({
    method: "post",
    path: "/logins/{id}",
    tags,
    request: { params, ...body(LoginBegin) },
    responses: answers("a login that waits for a person, 10 minutes at most", LoginWaiting),
  }),
  code: createRoute({
    method: "post",
    path: "/logins/{id}/code",
    tags,
    request: { params, ...body(LoginCode) },
    responses: answers("the code is taken for the login that waits", LoginState),
  }),
  keep: createRoute({
    method: "post",
    path: "/logins/{id}/keep",
    tags,
    request: { params, ...body(LoginKeep) },
    responses: answers("a login that an agent made in a VM is this host's now", LoginState),
  }),
  state: createRoute({
    method: "get",
    path: "/logins/{id}",
    tags,
    request: { params, query: LoginQuery },
    responses: answers("the login; while one waits, the answer comes at its end or after 20 s", LoginState),
  }),
  remove: createRoute({
    method: "delete",
    path: "/logins/{id}",
    tags,
    request: { params, query: LoginQuery },
    responses: answers("the login is forgotten; the provider is not notified", LoginState),
  }),
};
