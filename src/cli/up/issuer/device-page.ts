import { PEOPLE } from './people.ts';

/** The page on which somebody lets a device in. It has no script and loads nothing. */
export function devicePage(code: string, said = ''): string {
  const buttons = PEOPLE.map(
    ({ login, name }) => `<button name="as" value="${login}">Approve as ${name}</button>`,
  ).join(' ');
  const body =
    said === ''
      ? `<form method="post"><p>Code <input name="user_code" value="${escaped(code)}" autocomplete="off" required></p>
<p>Does your terminal show the same code? Then say who you are:</p><p>${buttons}</p></form>`
      : `<p>${escaped(said)}</p>`;
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>Log in to OSCAR</title>
<style>body{font:1.1rem system-ui;max-width:34rem;margin:15vh auto;padding:0 1rem}input{font:inherit;width:9em}button{font:inherit;padding:.4em 1em}</style>
<h1>Log in to OSCAR</h1>${body}</html>
`;
}

const escaped = (text: string) => text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
