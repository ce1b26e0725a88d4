import { createTranslator } from '../translation.ts';
import { texts } from './texts.ts';

/** Translates the texts of the account page. */
export const { language, t, rich } = createTranslator(document.documentElement.lang, texts);
