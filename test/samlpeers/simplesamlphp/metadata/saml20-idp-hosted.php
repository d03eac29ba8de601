<?php
$metadata[getenv('IDP_URL') . '/idp'] = [
    'host' => '__DEFAULT__',
    'privatekey' => 'idp.key',
    'certificate' => 'idp.crt',
    'auth' => 'static',
    'saml20.sign.response' => getenv('IDP_SIGNS') === 'response',
    'saml20.sign.assertion' => getenv('IDP_SIGNS') !== 'response',
    'assertion.encryption' => getenv('IDP_ENCRYPTS') === 'yes',
    'sign.logout' => true,
    'redirect.sign' => true,
    'redirect.validate' => true,
    'authproc' => [3 => ['class' => 'saml:PersistentNameID', 'attribute' => 'uid']],
];
