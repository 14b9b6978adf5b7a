/** What a text with a mistake may have meant. */

import { explain } from "./api.js";
import { characters } from "./formula.js";
import { quoted } from "./query.js";

const MOST = 4;
const MOST_WORDS = 12;

/** Whether two things stand side by side with nothing between them. */
export const isMissingSign = (message) => message.startsWith('expected "and"');

/**
 * Other texts that can be searched: the nearest words for one that is not known, `dog and sofa` for `dog sofa`.
 * @returns {Promise<{text: string, words: string, isSure?: boolean}[]>}  `isSure`: Enter alone may take it
 */
export async function readings(text, fault) {
  const { position = 0, length = 0, nearest = [], message } = fault;
  if (isMissingSign(message)) return joined(text, position);
  return nearest.slice(0, MOST).map((word) => ({
    text: characters(text, 0, position) + quoted(word) + characters(text, position + length),
    words: word,
  }));
}

/** Words beside each other are one phrase, if that is known; else all of them are wanted. */
async function joined(text, position) {
  const found = [];
  if (/^[\p{L}\p{N}\s]+$/u.test(text)) {
    const phrase = quoted(text.trim().replace(/\s+/g, " "));
    if (!(await faultOf(phrase))) found.push({ text: phrase, words: phrase, isSure: true });
  }
  let all = text;
  let at = position;
  for (let count = 0; count < MOST_WORDS; count += 1) {
    all = `${characters(all, 0, at)}and ${characters(all, at)}`;
    const fault = await faultOf(all);
    if (!fault || !isMissingSign(fault.message)) return [...found, { text: all, words: all, isSure: true }];
    at = fault.position;
  }
  return found;
}

async function faultOf(formula) {
  try {
    await explain(formula);
    return null;
  } catch (error) {
    return error;
  }
}
