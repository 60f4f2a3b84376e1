import { S3Error } from './errors.ts';

/** RFC 9110 §5.5: what can stand in a header, one character for each byte. */
// oxlint-disable-next-line no-control-regex
export const isHeaderValue = (text: string) => /^[\t\u0020-\u007e\u0080-\u00ff]*$/.test(text);

/** RFC 9110 §5.1. */
const isHeaderName = (text: string) => /^[a-z0-9!#$%&'*+.^_`|~-]+$/.test(text);

/** What is kept must be able to come back as a header: a query or a caller in the process may bring anything. */
export function checkHeader(name: string, value: string): void {
  if (isHeaderName(name) && isHeaderValue(value)) return;
  throw new S3Error('InvalidArgument', `The metadata ${name} has characters that no header can have.`);
}
