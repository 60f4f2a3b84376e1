export type Flags = Readonly<Record<string, string | number | boolean>>;

export const toArgs = (flags: Flags): string[] => Object.entries(flags).map(([name, value]) => `--${name}=${value}`);
