/** The order of the bytes in UTF-8, which beyond the basic plane is not that of JavaScript. */
export function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
