import { type ReactNode, useId } from 'react';
import { TEXTS } from '../../texts.ts';
import { type Schema, SERVICE_SCHEMA, withValue } from './definition-text.ts';

const T = TEXTS.services.form;

type Path = readonly (string | number)[];

/** The most common keys of a definition as a form. It edits the same text as the editor, so that neither loses anything. */
export function ServiceForm({
  text,
  definition,
  isNew,
  onChange,
}: {
  text: string;
  definition: Readonly<Record<string, unknown>>;
  isNew: boolean;
  onChange: (text: string) => void;
}) {
  const set = (path: Path, value: unknown) => onChange(withValue(text, path, value));
  const read = (path: Path) =>
    path.reduce<unknown>((value, key) => (value as Record<string, unknown> | null)?.[key], definition);
  const fields: Fields = { read, set };
  const members = listAt(fields, ['federation', 'members']);
  return (
    <div className="form">
      <Text {...fields} path={['name']} label={TEXTS.services.name} required readOnly={!isNew} />
      <Text {...fields} path={['image']} label={TEXTS.services.image} required />
      <Text {...fields} path={['script']} label={T.script} required rows={10} />
      <div className="form-row">
        <Text {...fields} path={['cpu']} label={T.cpu} />
        <Text {...fields} path={['memory']} label={T.memory} />
        <Check {...fields} path={['enable_gpu']} label={T.gpu} />
      </div>
      <Storage {...fields} name="input" title={T.input} />
      <Storage {...fields} name="output" title={T.output} />
      <div className="form-row">
        <Choice {...fields} path={['visibility']} label={TEXTS.services.visibility} />
        {read(['visibility']) === 'restricted' && (
          <Field label={T.allowed} path={['allowed_users']}>
            {(id) => (
              <input
                id={id}
                value={listAt(fields, ['allowed_users']).join(', ')}
                onChange={(event) => set(['allowed_users'], toWords(event.target.value))}
              />
            )}
          </Field>
        )}
        <Choice {...fields} path={['log_level']} label={T.logLevel} />
      </div>
      <Field label={T.variables} path={['environment', 'variables']}>
        {(id) => (
          <textarea
            key={String(isNew)}
            id={id}
            rows={3}
            spellCheck={false}
            defaultValue={Object.entries((read(['environment', 'variables']) as Record<string, unknown> | null) ?? {})
              .map(([key, value]) => `${key}=${String(value)}`)
              .join('\n')}
            onChange={(event) => set(['environment', 'variables'], toVariables(event.target.value))}
          />
        )}
      </Field>
      <fieldset>
        <legend>{T.federation}</legend>
        <p className="quiet">{T.federationHint}</p>
        {members.map((_, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: members have no identity but their position
          <div className="form-row" key={index}>
            <Text
              {...fields}
              path={['federation', 'members', index, 'cluster_id']}
              label={TEXTS.services.addCluster}
              required
            />
            <Text
              {...fields}
              path={['federation', 'members', index, 'service_name']}
              label={TEXTS.services.addService}
              required
            />
            <Count {...fields} path={['federation', 'members', index, 'priority']} label={TEXTS.services.priority} />
            <button type="button" onClick={() => set(['federation', 'members', index], undefined)}>
              {TEXTS.services.remove}
            </button>
          </div>
        ))}
        <p>
          <button
            type="button"
            onClick={() => {
              const name = read(['name']);
              const member = {
                type: 'oscar',
                cluster_id: '',
                service_name: typeof name === 'string' ? name : '',
                priority: 0,
              };
              set(['federation', 'members'], [...members, member]);
            }}
          >
            {TEXTS.services.add}
          </button>
        </p>
        {members.length > 0 && (
          <>
            <div className="form-row">
              <Choice {...fields} path={['federation', 'topology']} label={TEXTS.services.topology} />
              <Choice {...fields} path={['federation', 'delegation']} label={TEXTS.services.policy} />
              <Choice {...fields} path={['federation', 'delegate_when']} label={T.when} />
              <Choice {...fields} path={['federation', 'deployment']} label={T.deployment} />
            </div>
            <Text
              {...fields}
              path={['environment', 'secrets', 'refresh_token']}
              label={T.refreshToken}
              type="password"
            />
            <p className="quiet">{T.refreshTokenHint}</p>
          </>
        )}
      </fieldset>
      <p className="quiet">{T.rest}</p>
    </div>
  );
}

interface Fields {
  readonly read: (path: Path) => unknown;
  readonly set: (path: Path, value: unknown) => void;
}

type FieldProps = Fields & { readonly path: Path; readonly label: string };

/** A field with its label, and the description of the key from the schema. */
function Field({ label, path, children }: { label: string; path: Path; children: (id: string) => ReactNode }) {
  const id = useId();
  // In a file of definitions the script is a path, here it is the text.
  const description = path[0] === 'script' ? undefined : schemaAt(path)?.description;
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children(id)}
      {description !== undefined && <small className="quiet">{description.replaceAll('`', '')}</small>}
    </div>
  );
}

function Text({
  read,
  set,
  path,
  label,
  rows,
  ...more
}: FieldProps & { required?: boolean; readOnly?: boolean; rows?: number; type?: string }) {
  const value = toWord(read(path));
  const change = (event: { target: { value: string } }) => set(path, event.target.value);
  return (
    <Field label={label} path={path}>
      {(id) =>
        rows === undefined ? (
          <input id={id} value={value} onChange={change} autoComplete="off" {...more} />
        ) : (
          <textarea
            id={id}
            value={value}
            onChange={change}
            rows={rows}
            spellCheck={false}
            required={more.required ?? false}
          />
        )
      }
    </Field>
  );
}

function Count({ read, set, path, label }: FieldProps) {
  return (
    <Field label={label} path={path}>
      {(id) => (
        <input
          id={id}
          type="number"
          value={toWord(read(path))}
          onChange={(event) => set(path, event.target.valueAsNumber || 0)}
        />
      )}
    </Field>
  );
}

function Check({ read, set, path, label }: FieldProps) {
  return (
    <label className="check">
      <input type="checkbox" checked={read(path) === true} onChange={(event) => set(path, event.target.checked)} />
      {label}
    </label>
  );
}

/** The values come from the schema. */
function Choice({ read, set, path, label }: FieldProps) {
  const schema = schemaAt(path);
  const values = (schema?.anyOf ?? [schema ?? {}]).flatMap((each) => each.enum ?? []).map(String);
  return (
    <Field label={label} path={path}>
      {(id) => (
        <select id={id} value={toWord(read(path))} onChange={(event) => set(path, event.target.value || undefined)}>
          {[...new Set(['', ...values])].map((value) => (
            <option key={value} value={value}>
              {value || T.default}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

function Storage({ name, title, ...fields }: Fields & { name: 'input' | 'output'; title: string }) {
  const entries = listAt(fields, [name]);
  return (
    <fieldset>
      <legend>{title}</legend>
      {entries.map((_, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: entries have no identity but their position
        <div className="form-row" key={index}>
          <Text {...fields} path={[name, index, 'path']} label={T.path} required />
          <Text {...fields} path={[name, index, 'storage_provider']} label={T.provider} />
          <button type="button" onClick={() => fields.set([name, index], undefined)}>
            {TEXTS.services.remove}
          </button>
        </div>
      ))}
      <button
        type="button"
        onClick={() => fields.set([name], [...entries, { storage_provider: 'minio.default', path: '' }])}
      >
        {name === 'input' ? T.addInput : T.addOutput}
      </button>
    </fieldset>
  );
}

function schemaAt(path: Path): Schema | undefined {
  return path.reduce<Schema | undefined>(
    (schema, key) => (typeof key === 'number' ? schema?.items : schema?.properties?.[key]),
    SERVICE_SCHEMA,
  );
}

function listAt({ read }: Fields, path: Path): readonly unknown[] {
  const value = read(path);
  return Array.isArray(value) ? value : [];
}

const toWord = (value: unknown) => (typeof value === 'string' || typeof value === 'number' ? String(value) : '');

const toWords = (text: string) =>
  text
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '');

/** `KEY=value` per line; a line without `=` is not complete yet. */
function toVariables(text: string): Record<string, string> {
  const lines = text.split('\n').flatMap((line) => {
    const [, key, value = ''] = /^\s*([^=\s]+)\s*=(.*)$/.exec(line) ?? [];
    return key === undefined ? [] : [[key, value] as const];
  });
  return Object.fromEntries(lines);
}
