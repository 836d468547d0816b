/** Prepared questions about a fleet. */
export {
  ANSWER_ROWS,
  ask,
  type Asked,
  findQuestion,
  type Question,
  QUESTIONS,
  viewName,
  viewStatements,
  writeQuestion,
} from "./questions.ts";
export { grafanaDashboard } from "./grafana.ts";
