/**
 * Types of requests and answers by method and path, from the definitions that
 * validation and openapi.json are made of.
 */
import type { z } from "@hono/zod-openapi";
import type { ROUTE_GROUPS } from "./groups.ts";

type Groups = typeof ROUTE_GROUPS;
type RouteOf<G> = G[keyof G];
type AnyRoute = { [G in keyof Groups]: RouteOf<Groups[G]> }[keyof Groups];
type JsonOf<S> = { content: { "application/json": { schema: S } } };

/** Methods of routes. */
export type Method = Uppercase<AnyRoute["method"]>;
/** Paths of the routes of a method, with their parameters in braces. */
export type PathOf<M extends Method> = Extract<AnyRoute, { method: Lowercase<M> }>["path"];
/** The route of a method and a path. */
export type RouteAt<M extends Method, P> = Extract<AnyRoute, { method: Lowercase<M>; path: P }>;

type NamesIn<P> = P extends `${string}{${infer Name}}${infer Rest}` ? Name | NamesIn<Rest> : never;
/** Parameters of a path, as text. */
export type Params<P> = { [Name in NamesIn<P>]: string };

/** Conditions of a query, as text; an absent or empty one is left out. */
export type Query<R> = R extends { request: { query: infer Q extends z.ZodType } }
  ? { [Name in keyof z.input<Q>]?: string | undefined }
  : Record<string, never>;
/** Body of a request. */
export type Body<R> = R extends { request: { body: JsonOf<infer S extends z.ZodType> } } ? z.input<S>
  : undefined;
/** JSON of an answer. */
export type Answer<R> = R extends { responses: { 200: JsonOf<infer S extends z.ZodType> } } ? z.output<S>
  : unknown;
