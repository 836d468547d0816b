/** Prepared questions about a fleet. */
export { ANSWER_ROWS, ask, type Asked, findQuestion, writeQuestion } from "./ask.ts";
export { type Question, QUESTIONS } from "./questions.ts";
