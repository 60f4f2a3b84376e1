import { readFileSync } from 'node:fs';

interface Operation {
  summary?: string;
  tags?: string[];
  parameters?: { name: string; in: string; description?: string }[];
  requestBody?: unknown;
  responses?: Record<string, unknown>;
}

/** The part of an OpenAPI document that the page shows. */
export interface ApiDocument {
  info: { title: string; version: string };
  paths?: Record<string, Record<string, Operation>>;
}

const template = readFileSync(new URL('../../web/api.html', import.meta.url), 'utf8');

/** The API for people: every operation with its parameters and answers, on one page without scripts. */
export function apiPage(document: ApiDocument): string {
  const rows = Object.entries(document.paths ?? {}).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => operationRow(method, path, operation)),
  );
  return template
    .replaceAll('{{version}}', () => escape(document.info.version))
    .replace('{{operations}}', () => rows.join('\n'));
}

function operationRow(method: string, path: string, operation: Operation): string {
  const parameters = (operation.parameters ?? [])
    .filter((parameter) => parameter.in === 'query')
    .map(({ name, description }) => `<li><code>?${escape(name)}</code> ${escape(description ?? '')}</li>`);
  const body = operation.requestBody ? '<li>JSON body, see <a href="/openapi.json">openapi.json</a></li>' : '';
  const answers = Object.keys(operation.responses ?? {}).join(', ');
  return `<tr><td><b>${method.toUpperCase()}</b></td><td><code>${escape(path)}</code></td>
<td>${escape(operation.summary ?? '')}<ul>${parameters.join('')}${body}</ul></td><td>${escape(answers)}</td></tr>`;
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
