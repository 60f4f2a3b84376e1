/** Compares by UTF-8 bytes. For characters outside of the basic plane this differs from the order of JavaScript strings. */
export function compareBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
