import { parseYaml, readText } from '../yaml.ts';
import type { Kind } from './kind.ts';
import { problem } from './kind.ts';

/** A map in place (YAML in a variable, a map in a file), or the name of a YAML file: a single word is a name. */
export function mapOrFile<T>(map: Kind<T>): Kind<T> {
  const accepts = `the name of a YAML file, or YAML: ${map.accepts}`;
  return {
    accepts,
    parse(raw, context) {
      if (typeof raw !== 'string') return map.parse(raw, context);
      const inPlace = parseYaml(raw);
      if ('problems' in inPlace || typeof inPlace.value !== 'string') {
        return 'problems' in inPlace ? inPlace : map.parse(inPlace.value, context);
      }
      const name = inPlace.value;
      const text = readText(name, context);
      if ('problems' in text) return text;
      const inFile = parseYaml(text.value);
      if ('value' in inFile && inFile.value instanceof Map) return map.parse(inFile.value, context);
      const reason = 'value' in inFile ? `is not ${map.accepts}` : inFile.problems[0]?.text;
      return problem(`is ${JSON.stringify(name)}, which ${reason}`);
    },
  };
}
