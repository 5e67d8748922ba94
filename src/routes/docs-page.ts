import { headTag } from './api-document.ts'

/** The documentation page, and the files that it loads. Nothing here or there points to another origin. */

export const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sync Bridge API</title>
<link rel="icon" href="docs/favicon.png">
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="stylesheet" href="docs/page.css">
</head>
<body>
<main id="page"></main>
<noscript>This page draws the <a href="__api__">API document</a> and needs JavaScript for it.</noscript>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/page.js"></script>
</body>
</html>
`

export const pageStyle = `body { margin: 0; background: #fff; overflow-wrap: anywhere }
noscript { display: block; padding: 24px; font-family: sans-serif }
.swagger-ui .wrapper { max-width: 1100px; padding: 0 20px }
.swagger-ui .info { margin: 32px 0 0 }
.swagger-ui .info .main { margin: 0 }
.swagger-ui .info p, .swagger-ui .opblock-description-wrapper p { font-size: 15px; line-height: 1.5 }
.swagger-ui .info .title small pre, .swagger-ui .info .title small { vertical-align: middle }
.swagger-ui .scheme-container { padding: 0 0 20px; box-shadow: none }
.swagger-ui .scheme-container .schemes { justify-content: flex-start }
.swagger-ui .scheme-container .schemes > :not(.auth-wrapper),
.swagger-ui .response-col_links, .swagger-ui .response-controls { display: none !important }
.swagger-ui .auth-wrapper .authorize { margin: 0 }
.swagger-ui .markdown code, .swagger-ui .renderedMarkdown code {
  padding: 1px 4px; border-radius: 3px; background: #eef1f5; color: #24292f; font-weight: 400
}
.swagger-ui .opblock-tag { font-size: 20px; margin: 8px 0 4px; padding: 8px 0 }
.swagger-ui .opblock { margin: 0 0 8px; box-shadow: none }
.swagger-ui .parameters-col_name { min-width: 150px }
.swagger-ui .headers .header-col { padding: 3px 8px 3px 0; font-weight: 400 }
.swagger-ui .headers p { margin: 0; font: 13px sans-serif }
.swagger-ui .response > td { padding-bottom: 20px }
.swagger-ui .dialog-ux .modal-ux-content { max-height: calc(100vh - 140px); padding: 12px 20px }
.swagger-ui .auth-container, .swagger-ui .auth-container:last-of-type { margin: 0; padding: 4px 0 8px }
.swagger-ui .auth-container h4 { margin: 4px 0 }
@media (max-width: 640px) {
  .swagger-ui .wrapper { padding: 0 10px }
  .swagger-ui .info .title { font-size: 28px }
  .swagger-ui .opblock-tag small { display: none }
  .swagger-ui .opblock-body table, .swagger-ui .opblock-body tbody, .swagger-ui .opblock-body tr,
  .swagger-ui .opblock-body td { display: block; width: auto; max-width: 100%; padding: 2px 0 }
  .swagger-ui .opblock-body tr { padding: 4px 0 }
  .swagger-ui .parameters-col_description { margin-bottom: 8px }
  .swagger-ui .opblock-body thead { display: none }
  .swagger-ui .opblock-body input[type=text], .swagger-ui .opblock-body select { width: 100%; max-width: 100%; margin: 4px 0 }
  .swagger-ui .dialog-ux .modal-ux { width: 94vw; min-width: 0 }
}
`

export const pageScript = `const ui = SwaggerUIBundle({
  url: '__api__',
  dom_id: '#page',
  deepLinking: true,
  docExpansion: 'list',
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  persistAuthorization: false,
  validatorUrl: null,
  onComplete: () => ui.layoutActions.show(['operations-tag', '${headTag}'], false),
})
`
