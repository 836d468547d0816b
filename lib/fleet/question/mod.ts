/** Prepared questions about a fleet. */
export { ANSWER_ROWS, ask, type Asked, findQuestion, writeQuestion } from "./ask.ts";
export { grafanaDashboard } from "./grafana.ts";
export { type Question, QUESTIONS } from "./questions.ts";
export { viewName, viewStatements } from "./view.ts";
