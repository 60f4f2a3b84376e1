import { fields, text } from '../../../base/fields.ts';

/** Why something was not done, for programs. */
export const readCode = fields<{ readonly code: string }>({ code: text('a code', /^[a-z-]{1,64}$/) });
