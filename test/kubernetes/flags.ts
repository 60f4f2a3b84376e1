export type Flags = Readonly<Record<string, string | number | boolean>>;

export const argsOf = (flags: Flags): string[] => Object.entries(flags).map(([name, value]) => `--${name}=${value}`);
