// The client of `tflow lsp`: starts the server of the folder's environment. All else is the server's.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { commands, ExtensionContext, window, workspace } from "vscode";
import { LanguageClient, LanguageClientOptions, ServerOptions } from "vscode-languageclient/node";

let client: LanguageClient | undefined;

/** What starts the server: as the settings say, or the `tflow` of the environment in `.venv`, or that on the path. */
export function command(configured: readonly string[], folder: string | undefined): [string, ...string[]] {
  const [first, ...rest] = configured;
  if (first !== undefined) {
    return [first, ...rest];
  }
  const places = [
    ["bin", "tflow"],
    ["Scripts", "tflow.exe"],
  ].map((parts) => join(folder ?? ".", ".venv", ...parts));
  return [places.find((place) => existsSync(place)) ?? "tflow", "lsp"];
}

async function start(): Promise<void> {
  const settings = workspace.getConfiguration("tflow");
  const folder = workspace.workspaceFolders?.[0]?.uri.fsPath;
  const [executable, ...args] = command(settings.get<string[]>("command", []), folder);
  const server: ServerOptions = { command: executable, args, options: folder === undefined ? {} : { cwd: folder } };
  const options: LanguageClientOptions = {
    documentSelector: [{ scheme: "file", language: "python" }],
    initializationOptions: { all: settings.get<boolean>("all", false) },
  };
  client = new LanguageClient("tflow", "tflow", server, options);
  try {
    await client.start();
  } catch (error) {
    void window.showErrorMessage(`tflow lsp did not start: ${String(error)}. Install it: pip install 'tflow[lsp]'`);
  }
}

export async function deactivate(): Promise<void> {
  await client?.stop();
  client = undefined;
}

async function restart(): Promise<void> {
  await deactivate();
  await start();
}

export async function activate(context: ExtensionContext): Promise<void> {
  context.subscriptions.push(
    commands.registerCommand("tflow.restart", restart),
    workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("tflow")) {
        void restart();
      }
    }),
  );
  await start();
}
