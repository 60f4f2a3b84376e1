import { type FormEvent, useEffect, useState } from 'react';
import { readField } from '../lib/form.ts';
import { TEXTS } from '../texts.ts';
import { finishSignIn, type PageConfig, type PageIssuer, readPageConfig, startSignIn } from './oidc.ts';
import { signInAsAdmin, signInAsUser } from './session.ts';

export function SignIn({ expired }: { expired: boolean }) {
  const [config, setConfig] = useState<PageConfig>();
  const [problem, setProblem] = useState('');
  const [busy, setBusy] = useState(true);
  const fail = (error: unknown) => {
    setBusy(false);
    setProblem(error instanceof Error ? error.message : String(error));
  };
  useEffect(() => {
    document.title = `${TEXTS.signIn.title} · ${TEXTS.product}`;
    (async () => {
      const [read, tokens] = await Promise.all([readPageConfig(), finishSignIn()]);
      setConfig(read);
      setBusy(false);
      if (tokens) signInAsUser(tokens);
    })().catch(fail);
  }, []);
  const leave = (issuer: PageIssuer, hint?: string) => {
    setBusy(true);
    startSignIn(issuer, hint).catch(fail);
  };
  return (
    <main className="sign-in">
      <h1>{TEXTS.product}</h1>
      {config && <p className="quiet">{TEXTS.signIn.lead(config.cluster)}</p>}
      {expired && <p role="status">{TEXTS.signIn.expired}</p>}
      {problem !== '' && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
      {busy && <p role="status">{TEXTS.signIn.busy}</p>}
      <div className="issuers">
        {config?.issuers.map((issuer) => (
          <div key={issuer.issuer}>
            {issuer.login_hints.map((user) => (
              <button type="button" key={user} className="primary" onClick={() => leave(issuer, user)} disabled={busy}>
                {TEXTS.signIn.as(user)}
              </button>
            ))}
            {issuer.login_hints.length === 0 && (
              <button type="button" className="primary" onClick={() => leave(issuer)} disabled={busy}>
                {TEXTS.signIn.with(issuer.issuer)}
              </button>
            )}
          </div>
        ))}
      </div>
      <AdminForm onProblem={setProblem} open={config?.issuers.length === 0} />
    </main>
  );
}

function AdminForm({ onProblem, open }: { onProblem: (problem: string) => void; open: boolean }) {
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const [user, password] = [readField(form, 'user'), readField(form, 'password')];
    const status = await signInAsAdmin(user, password);
    if (status !== 200) onProblem(status === 401 ? TEXTS.signIn.wrong : TEXTS.problem);
  };
  return (
    <details open={open}>
      <summary>{TEXTS.signIn.admin}</summary>
      <form onSubmit={(event) => void submit(event)}>
        <label>
          {TEXTS.signIn.user}
          <input name="user" autoComplete="username" defaultValue="oscar" required />
        </label>
        <label>
          {TEXTS.signIn.password}
          <input name="password" type="password" autoComplete="current-password" required />
        </label>
        <button type="submit">{TEXTS.signIn.submit}</button>
      </form>
    </details>
  );
}
