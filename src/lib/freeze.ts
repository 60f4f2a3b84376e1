/** Freezes a value that came out of JSON, so that it can be shared by everyone who reads it. What is frozen is so to its depths. */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  for (const inner of Object.values(value)) deepFreeze(inner);
  return Object.freeze(value);
}
