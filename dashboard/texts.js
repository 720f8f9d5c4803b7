// Every text of the dashboard, one file per page under texts/.

export { shell } from './texts/shell.js';
